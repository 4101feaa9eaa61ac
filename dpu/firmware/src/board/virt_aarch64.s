// From reset to Rust: exception level 1, MMU off, one core.
.section .text.start, "ax"
.global _start
_start:
    mrs     x0, mpidr_el1
    and     x0, x0, #0xff
    cbnz    x0, park

    // Rust uses vector registers as it pleases.
    mov     x0, #(3 << 20)
    msr     cpacr_el1, x0
    ldr     x0, =vectors
    msr     vbar_el1, x0
    isb
    ldr     x0, =__stack_top
    mov     sp, x0

    ldr     x0, =__bss_start
    ldr     x1, =__bss_end
1:  cmp     x0, x1
    b.hs    2f
    stp     xzr, xzr, [x0], #16
    b       1b

    // What is still painted at the end was never used.
2:  ldr     x0, =__stack_bottom
    ldr     x1, =__stack_top
    ldr     x2, =0x7061696e74656421
3:  cmp     x0, x1
    b.hs    4f
    stp     x2, x2, [x0], #16
    b       3b

    // Without the MMU all memory is device memory: no atomics by exclusive access there, no unaligned access. So the
    // first GiB is mapped to itself as device memory, the second, with all RAM, as ordinary cacheable memory that is
    // coherent with everybody else's.
4:  ldr     x0, =page_table
    mov     x1, #0x405              // block, attributes 1, accessed
    movk    x1, #0x0060, lsl #48    // not executable
    str     x1, [x0]
    ldr     x1, =0x40000701         // block, attributes 0, inner shareable, accessed
    str     x1, [x0, #8]
    mov     x1, #0x04ff             // attributes 0: write-back; 1: device, nGnRE
    msr     mair_el1, x1
    // 39 bits of address, 4 KiB pages, tables cacheable and shareable, no second half, 36 bits of physical address.
    ldr     x1, =0x100803519
    msr     tcr_el1, x1
    msr     ttbr0_el1, x0
    dsb     sy
    tlbi    vmalle1
    dsb     sy
    isb
    mrs     x1, sctlr_el1
    mov     x2, #0x1005             // MMU, data cache, instruction cache
    orr     x1, x1, x2
    bic     x1, x1, #2              // no alignment check
    msr     sctlr_el1, x1
    isb
    bl      firmware_main

park:
    wfe
    b       park

// Nothing here may happen; whatever does is told and ends this life.
.section .text.vectors, "ax"
.balign 0x800
vectors:
.rept 16
    .balign 0x80
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    b       firmware_fault
.endr

.section .page_table, "aw", %nobits
.balign 4096
page_table:
    .skip 4096
