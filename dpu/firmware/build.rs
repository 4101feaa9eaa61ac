//! Tells the linker where the board has its memory.
#![forbid(unsafe_code)]

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=boards");
    println!("cargo:rerun-if-env-changed=DEFMT_LOG");
    let of = |name: &str| env::var(name).unwrap_or_default();
    // On a system this package is a program that says what it is for.
    if of("CARGO_CFG_TARGET_OS") != "none" {
        return;
    }
    let script = format!("{}/boards/virt-{}.x", of("CARGO_MANIFEST_DIR"), of("CARGO_CFG_TARGET_ARCH"));
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rerun-if-env-changed=UMBRA_FIRMWARE_STACK");
    if let Ok(bytes) = env::var("UMBRA_FIRMWARE_STACK") {
        println!("cargo:rustc-link-arg-bins=--defsym=STACK_BYTES={bytes}");
    }
    if env::var_os("CARGO_FEATURE_DEFMT").is_some() {
        println!("cargo:rustc-link-arg-bins=-Tdefmt.x");
    }
}
