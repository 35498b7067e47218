/// \file
/// Ends of reductions as compilers write them (is_*), and what is not quite one (not_*). Each function gets
/// the variable, a part as an integer, and one as a real.

__asm__(R"(
  .text
  .macro form name
  .globl \name
  .type \name,@function
  .p2align 4
\name:
  .cfi_startproc
  .set current_form, \name
  .endm
  .macro done name
  .cfi_endproc
  .size \name, .-\name
  .endm
  # Forms that meet others in a barrier have 24 bytes of stack.
  .macro barrier_form name
  form \name
  subq $24, %rsp
  .cfi_adjust_cfa_offset 24
  .endm
  .macro meet name
  call meet_others@PLT
  addq $24, %rsp
  .cfi_adjust_cfa_offset -24
  ret
  done \name
  .endm

barrier_form is_real_as_gcc_writes_it
  movq (%rdi), %rcx
1:
  movq %rcx, %xmm6
  movq %rcx, %rax
  addsd %xmm0, %xmm6
  movq %xmm6, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 2f
  movq %rsi, 8(%rsp)
  call meet_others@PLT
  addq $24, %rsp
  ret
2:
  movq %rax, %rcx
  jmp 1b
done is_real_as_gcc_writes_it

barrier_form is_real_of_a_short_loop
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  addsd %xmm0, %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet is_real_of_a_short_loop

barrier_form is_real_of_three_operands
  movq (%rdi), %rax
1:
  vmovq %rax, %xmm1
  vaddsd %xmm1, %xmm0, %xmm2
  vmovq %xmm2, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet is_real_of_three_operands

barrier_form is_real_added_the_other_way_round
  movq (%rdi), %rax
1:
  movapd %xmm0, %xmm2
  movq %rax, %xmm1
  addsd %xmm1, %xmm2
  movq %xmm2, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet is_real_added_the_other_way_round

barrier_form is_real_with_its_part_on_the_stack
  movsd %xmm0, 8(%rsp)
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  addsd 8(%rsp), %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet is_real_with_its_part_on_the_stack

barrier_form is_product_of_reals
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  mulsd %xmm0, %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet is_product_of_reals

barrier_form is_short_real
  cvtsd2ss %xmm0, %xmm0
  movl (%rdi), %eax
1:
  movd %eax, %xmm1
  addss %xmm0, %xmm1
  movd %xmm1, %edx
  lock cmpxchgl %edx, (%rdi)
  jne 1b
meet is_short_real

barrier_form is_product_of_integers
  movq (%rdi), %rax
1:
  movq %rax, %rdx
  imulq %rsi, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet is_product_of_integers

barrier_form is_integer_by_lea
  movl (%rdi), %eax
1:
  leal (%rax,%rsi), %edx
  lock cmpxchgl %edx, (%rdi)
  jne 1b
meet is_integer_by_lea

barrier_form is_integer_at_once
  lock addq %rsi, (%rdi)
meet is_integer_at_once

barrier_form is_difference_at_once
  lock subw %si, (%rdi)
meet is_difference_at_once

barrier_form is_or_at_once
  lock orb %sil, (%rdi)
  jmp 1f
  ud2
1:
meet is_or_at_once

barrier_form is_xor_at_once
  lock xorq %rsi, (%rdi)
meet is_xor_at_once

barrier_form is_and_at_once
  lock andl %esi, (%rdi)
meet is_and_at_once

barrier_form not_met_by_way_of_a_pointer
  lock xorq %rsi, (%rdi)
  call *meet_others@GOTPCREL(%rip)
  addq $24, %rsp
  .cfi_adjust_cfa_offset -24
  ret
done not_met_by_way_of_a_pointer

form is_in_a_frame
  pushq %rbp
  movq %rsp, %rbp
  subq $16, %rsp
  lock addq %rsi, (%rdi)
  movq %rsi, -8(%rbp)
  call meet_others@PLT
  leave
  ret
done is_in_a_frame

form is_before_a_last_call
  lock addq %rsi, (%rdi)
  jmp meet_others@PLT
done is_before_a_last_call

form is_at_the_end
  pushq %rbx
  lock addq %rsi, (%rdi)
  popq %rbx
  ret
done is_at_the_end

barrier_form not_twice_the_part
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  addsd %xmm0, %xmm1
  addsd %xmm0, %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_twice_the_part

barrier_form not_of_another_rounding_mode
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  vaddsd {ru-sae}, %xmm0, %xmm1, %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_of_another_rounding_mode

barrier_form not_kept_in_the_frame
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  addsd %xmm0, %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
  movsd %xmm1, 8(%rsp)
meet not_kept_in_the_frame

form not_kept_in_a_register
  pushq %rbx
  movq (%rdi), %rax
1:
  leaq (%rax,%rsi), %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
  movq %rdx, %rbx
  call meet_others@PLT
  movq %rbx, %rax
  popq %rbx
  ret
done not_kept_in_a_register

form not_what_was_there_kept
  pushq %rbx
  movq (%rdi), %rax
1:
  leaq (%rax,%rsi), %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
  movl %eax, %ebx
  call meet_others@PLT
  popq %rbx
  ret
done not_what_was_there_kept

form not_offered_from_a_kept_register
  pushq %rbx
  movq (%rdi), %rax
1:
  leaq (%rax,%rsi), %rbx
  lock cmpxchgq %rbx, (%rdi)
  jne 1b
  call meet_others@PLT
  popq %rbx
  ret
done not_offered_from_a_kept_register

form is_offered_from_a_register_that_is_restored
  pushq %rbx
  movq (%rdi), %rax
1:
  leaq (%rax,%rsi), %rbx
  lock cmpxchgq %rbx, (%rdi)
  jne 1b
  popq %rbx
  ret
done is_offered_from_a_register_that_is_restored

barrier_form not_one_of_two_results
  movq (%rdi), %rax
1:
  leaq (%rax,%rsi), %rdx
  movq %rax, %rcx
  andq %rsi, %rcx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_one_of_two_results

barrier_form not_counted_in_a_loop
  movq (%rdi), %rax
1:
  movq %rax, %rdx
  addq $1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_counted_in_a_loop

barrier_form not_counted_by_lea
  movq (%rdi), %rax
1:
  leaq 1(%rax), %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_counted_by_lea

barrier_form not_a_short_address
  movq (%rdi), %rax
1:
  leaq (%eax,%esi), %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_a_short_address

barrier_form not_on_its_own_stack
  lock addq %rsi, 8(%rsp)
meet not_on_its_own_stack

barrier_form not_twice_what_is_there
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  addsd %xmm1, %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_twice_what_is_there

barrier_form not_the_sum
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  addsd %xmm0, %xmm1
  movq %xmm0, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_the_sum

barrier_form not_the_greater_one
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  maxsd %xmm0, %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_the_greater_one

barrier_form not_what_was_expected
  movq (%rdi), %rax
1:
  movq %rax, %rdx
  addq %rsi, %rdx
  addq $1, %rax
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_what_was_expected

barrier_form not_all_of_it
  movq (%rdi), %rax
1:
  leal (%rax,%rsi), %edx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_all_of_it

barrier_form not_scaled
  movq (%rdi), %rax
1:
  leaq (%rsi,%rax,2), %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_scaled

barrier_form not_a_half_of_the_bytes
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  addss %xmm0, %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_a_half_of_the_bytes

barrier_form not_with_a_part_that_others_see
  movq (%rdi), %rax
1:
  movq %rax, %xmm1
  addsd 8(%rdi), %xmm1
  movq %xmm1, %rdx
  lock cmpxchgq %rdx, (%rdi)
  jne 1b
meet not_with_a_part_that_others_see

barrier_form not_whether_or_not_it_succeeds
  movq (%rdi), %rax
  leaq (%rax,%rsi), %rdx
  lock cmpxchgq %rdx, (%rdi)
meet not_whether_or_not_it_succeeds

barrier_form not_a_number_of_the_code
  lock addq $1, (%rdi)
meet not_a_number_of_the_code

barrier_form not_an_increment
  lock incq (%rdi)
meet not_an_increment

barrier_form not_what_gives_what_was_there
  lock xaddq %rsi, (%rdi)
meet not_what_gives_what_was_there

barrier_form not_what_tells_of_the_sum
  lock addq %rsi, (%rdi)
  sete %al
meet not_what_tells_of_the_sum

barrier_form not_before_others_are_told
  lock addq %rsi, (%rdi)
  movq %rsi, 8(%rdi)
meet not_before_others_are_told

barrier_form not_before_it_is_looked_at
  lock addq %rsi, (%rdi)
  movq (%rdi), %rax
meet not_before_it_is_looked_at

barrier_form not_before_a_fence
  lock addq %rsi, (%rdi)
  mfence
meet not_before_a_fence

barrier_form not_before_a_fence_on_the_stack
  lock addq %rsi, (%rdi)
  lock orq $0, (%rsp)
meet not_before_a_fence_on_the_stack

barrier_form not_before_another_one
  lock addq %rsi, (%rdi)
  lock addq $1, 8(%rdi)
meet not_before_another_one

barrier_form not_before_another_call
  lock addq %rsi, (%rdi)
  call pass_others@PLT
meet not_before_another_call

barrier_form not_where_it_depends
  lock addq %rsi, (%rdi)
  testq %rsi, %rsi
  je 1f
1:
meet not_where_it_depends

form not_in_a_frame_that_is_none
  pushq %rbp
  subq $16, %rsp
  movq %rdi, %rbp
  lock addq %rsi, (%rdi)
  movq %rsi, 8(%rbp)
  call meet_others@PLT
  addq $16, %rsp
  popq %rbp
  ret
done not_in_a_frame_that_is_none
)");
