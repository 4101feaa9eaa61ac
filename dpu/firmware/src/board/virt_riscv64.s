# From reset to Rust: machine mode, no translation, one hart.
.section .text.start, "ax"
.global _start
_start:
    csrr    t0, mhartid
    bnez    t0, park
    # Rust uses floating-point registers as it pleases.
    li      t0, 0x6000
    csrs    mstatus, t0
    la      t0, trap
    csrw    mtvec, t0
    la      sp, __stack_top

    la      t0, __bss_start
    la      t1, __bss_end
1:  bgeu    t0, t1, 2f
    sd      zero, 0(t0)
    addi    t0, t0, 8
    j       1b

    # What is still painted at the end was never used.
2:  la      t0, __stack_bottom
    la      t1, __stack_top
    li      t2, 0x7061696e74656421
3:  bgeu    t0, t1, 4f
    sd      t2, 0(t0)
    addi    t0, t0, 8
    j       3b
    # What lies below the stack may not be touched, so that a stack that is too small is a fault: 64 KiB, locked, for
    # machine mode, too.
4:  la      t0, __stack_guard
    srli    t0, t0, 2
    li      t1, 0x1fff
    or      t0, t0, t1
    csrw    pmpaddr0, t0
    li      t0, 0x98
    csrw    pmpcfg0, t0
    call    firmware_main

park:
    wfi
    j       park

# Nothing here may happen; whatever does is told and ends this life.
.balign 4
trap:
    csrr    a0, mcause
    csrr    a1, mepc
    csrr    a2, mtval
    # What is told needs a stack, and what was on it is of no use any more.
    la      sp, __stack_top
    j       firmware_fault
