! What the NAS programs in Fortran share: common/npb.h says the same in C.
module npb
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: error_unit, output_unit, real64
  use omp_lib, only: omp_get_max_threads
  implicit none
  private
  public :: class_of_argument, matches, report, real64

  character(len=*), parameter :: classes = 'SWAB'

  interface
    ! Unlike `stop`, says nothing.
    subroutine exit_with(status) bind(c, name='exit')
      import :: c_int
      integer(c_int), value :: status
    end subroutine exit_with
  end interface

contains

  ! The index of the class, 1 to 4 for S, W, A, B; S without an argument. Ends the program with 2 for any other.
  integer function class_of_argument() result(found)
    character(len=256) :: program_name, argument
    found = 1
    if (command_argument_count() == 0) return
    call get_command_argument(0, program_name)
    call get_command_argument(1, argument)
    found = merge(index(classes, trim(argument)), 0, command_argument_count() == 1 .and. len_trim(argument) == 1)
    if (found > 0) return
    write (error_unit, '(4a)') trim(program_name), ': ''', trim(argument), &
      ''' is no class; the one argument is S, W, A or B'
    call exit_with(2_c_int)
  end function class_of_argument

  ! Prints both values; false where they differ by more, or are not numbers.
  logical function matches(what, place, found, expected, tolerance)
    character(len=*), intent(in) :: what
    integer, intent(in) :: place
    real(real64), intent(in) :: found, expected, tolerance
    real(real64) :: difference
    difference = abs((found - expected) / expected)
    matches = difference <= tolerance
    write (output_unit, '(2x, a, t17, i0, t26, es21.14, a, es21.14, a, es7.1, a)') what, place, found, &
      ', expected ', expected, ', relative difference ', difference, trim(merge('         ', ' TOO MUCH', matches))
  end function matches

  ! Prints the last two lines and ends the program.
  subroutine report(name, class_index, iterations, seconds, million_operations, verified)
    character(len=*), intent(in) :: name
    integer, intent(in) :: class_index, iterations
    real(real64), intent(in) :: seconds, million_operations
    logical, intent(in) :: verified
    character(len=32) :: seconds_text, rate_text
    write (seconds_text, '(f32.3)') seconds
    write (rate_text, '(f32.2)') million_operations / seconds
    write (output_unit, '(4a, i0, a, i0, 5a)') name, ' class ', classes(class_index:class_index), ': ', iterations, &
      ' iterations, ', omp_get_max_threads(), ' threads, ', trim(adjustl(seconds_text)), ' s, ', &
      trim(adjustl(rate_text)), ' Mop/s'
    write (output_unit, '(a)') trim(merge('VERIFICATION SUCCESSFUL', 'VERIFICATION FAILED    ', verified))
    flush (output_unit)
    call exit_with(merge(0_c_int, 1_c_int, verified))
  end subroutine report

end module npb
