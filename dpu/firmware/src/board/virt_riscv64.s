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
4:  call    firmware_main

park:
    wfi
    j       park

# Nothing here may happen; whatever does is told and ends this life.
.balign 4
trap:
    csrr    a0, mcause
    csrr    a1, mepc
    csrr    a2, mtval
    j       firmware_fault
