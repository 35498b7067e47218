!> What main tells the library: arguments, and what the program was compiled with, which it says here itself.
program fortran_start
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: int8
  use check
  implicit none
  interface
    subroutine set_options(count, options) bind(c, name='_gfortran_set_options')
      import :: c_int
      integer(c_int), value :: count
      integer(c_int) :: options(*)
    end subroutine
    subroutine set_convert(order) bind(c, name='_gfortran_set_convert')
      import :: c_int
      integer(c_int), value :: order
    end subroutine
  end interface
  integer(c_int), parameter :: big_endian = 2
  integer(c_int) :: options(7) = [68, 8191, 0, 1, 0, 0, 0]  ! the fifth: no sign of zero
  integer :: right, unit, status
  integer(int8) :: bytes(4)
  character(200) :: name
  character(8) :: text

  right = 0
  !$omp parallel reduction(+:right) private(name, status)
  call take_part()
  if (command_argument_count() == 0) right = right + 1
  call get_command_argument(0, name, status=status)
  if (status == 0 .and. index(name, 'fortran_start') > 0) right = right + 1
  call get_command(name)
  if (index(name, 'fortran_start') > 0) right = right + 1
  !$omp end parallel
  call check_int('arguments', int(right, int64))

  call check_int('zeros with a sign', int(signs(), int64))
  call set_options(size(options), options)
  call check_int('zeros without a sign', int(signs(), int64))

  call set_convert(big_endian)
  right = 0
  !$omp parallel reduction(+:right) private(unit, bytes)
  call take_part()
  open (newunit=unit, status='scratch', form='unformatted', access='stream')
  write (unit) 1
  rewind (unit)
  read (unit) bytes
  if (all(bytes == [0_int8, 0_int8, 0_int8, 1_int8])) right = right + 1
  close (unit)
  !$omp end parallel
  call check_int('the most significant byte first', int(right, int64))
  call finish()

contains

  !> How many threads write the sign of zero.
  integer function signs()
    signs = 0
    !$omp parallel reduction(+:signs) private(text)
    call take_part()
    write (text, '(f4.1)') -0.0
    if (index(text, '-') /= 0) signs = signs + 1
    !$omp end parallel
  end function
end program
