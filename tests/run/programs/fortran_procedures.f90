!> Internal procedures that are called by others: their addresses are those of code on the stack.
module procedures
  use check
  use omp_lib
  implicit none
  interface
    integer function of_one(n)
      integer, intent(in) :: n
    end function
  end interface

contains

  integer function sum_of(f, n)
    procedure(of_one) :: f
    integer, intent(in) :: n
    integer :: i
    sum_of = 0
    do i = 1, n
      sum_of = sum_of + f(i)
    end do
  end function

  integer function sum_of_powers(k)
    integer, intent(in) :: k
    sum_of_powers = sum_of(power, 9)
  contains
    integer function power(n)
      integer, intent(in) :: n
      power = n**k
    end function
  end function

  !> The code is on the stack of the thread that has begun the region.
  subroutine call_on_all_threads(f, values)
    procedure(of_one) :: f
    integer, intent(out) :: values(:)
    integer :: i
    !$omp parallel do
    do i = 1, size(values)
      call meet()
      values(i) = f(i)
    end do
  end subroutine
end module

program fortran_procedures
  use check
  use omp_lib
  use procedures
  implicit none
  integer, parameter :: n = 64
  integer :: i, turn, factor, values(n)

  call check_int('internal procedure', int(sum_of_powers(3), int64))
  !$omp parallel do
  do i = 1, n
    call meet()
    values(i) = sum_of_powers(mod(i, 5))
  end do
  call check_int('internal procedures of all threads', sum(int(values, int64)))
  do turn = 1, 3
    factor = turn * 7
    call call_on_all_threads(scaled, values)
    call check_int('internal procedure of another thread', sum(int(values, int64)))
  end do

  call finish()

contains

  integer function scaled(n)
    integer, intent(in) :: n
    scaled = n * factor
  end function
end program
