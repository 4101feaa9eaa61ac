//! Writes the first corpus of the fuzz targets.
//!
//! It is the valid inputs of every reader of foreign bytes.
//!
//! `cargo run -p umbra-tests --example hostile_seeds FOLDER` makes a folder a target, a file a seed.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::{env, error, fs};

use umbra_tests::hostile::TARGETS;

fn main() -> Result<(), Box<dyn error::Error>> {
    let root = PathBuf::from(env::args_os().nth(1).ok_or("name the folder to write to")?);
    for target in TARGETS {
        let folder = root.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
