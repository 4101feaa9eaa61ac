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
    ldr     x2, =page_table_ram
    orr     x1, x2, #3              // table
    str     x1, [x0, #8]
    ldr     x1, =0x40000701         // block of 2 MiB, attributes 0, inner shareable, accessed
    add     x3, x2, #1, lsl #12
5:  str     x1, [x2], #8
    add     x1, x1, #0x200, lsl #12
    cmp     x2, x3
    b.lo    5b

    // All but what lies below the stack, so that a stack that is too small is a fault. That never crosses a multiple of 2 MiB.
    ldr     x4, =__stack_guard
    ldr     x5, =__stack_bottom
    ldr     x2, =page_table_stack
    orr     x1, x2, #3
    ldr     x3, =page_table_ram
    ubfx    x6, x4, #21, #9
    str     x1, [x3, x6, lsl #3]
    and     x1, x4, #~0x1fffff
    add     x3, x2, #1, lsl #12
6:  orr     x6, x1, #0x700
    orr     x6, x6, #3              // page, attributes as above
    cmp     x1, x4
    ccmp    x1, x5, #2, hs          // from the guard on, and below the stack
    csel    x6, xzr, x6, lo
    str     x6, [x2], #8
    add     x1, x1, #1, lsl #12
    cmp     x2, x3
    b.lo    6b

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
    // What is told needs a stack, and what was on it is of no use any more.
    ldr     x3, =__stack_top
    mov     sp, x3
    b       firmware_fault
.endr

.section .page_table, "aw", %nobits
.balign 4096
page_table:
    .skip 4096
page_table_ram:
    .skip 4096
page_table_stack:
    .skip 4096
