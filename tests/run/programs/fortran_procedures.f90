!> Procedures that are called by others: internal ones, whose addresses are those of code on the stack, and those that
!> write and read a type: one at a time, for the library (GCC 12) confuses such statements of several threads.
module weights
  use check
  use omp_lib
  implicit none
  type :: weight
    integer :: grams = 0
  contains
    procedure, private :: write_weight
    procedure, private :: read_weight
    generic :: write(formatted) => write_weight
    generic :: read(formatted) => read_weight
  end type

  type :: parcel
    type(weight) :: inner, outer
  contains
    procedure, private :: write_parcel
    generic :: write(formatted) => write_parcel
  end type

  interface
    integer function of_one(n)
      integer, intent(in) :: n
    end function
  end interface

contains

  subroutine write_weight(self, unit, iotype, v_list, iostat, iomsg)
    class(weight), intent(in) :: self
    integer, intent(in) :: unit, v_list(:)
    character(len=*), intent(in) :: iotype
    integer, intent(out) :: iostat
    character(len=*), intent(inout) :: iomsg
    write (unit, '(a, i0, a)', iostat=iostat, iomsg=iomsg) '<', self%grams + size(v_list) + len(iotype), '>'
  end subroutine

  subroutine write_parcel(self, unit, iotype, v_list, iostat, iomsg)
    class(parcel), intent(in) :: self
    integer, intent(in) :: unit, v_list(:)
    character(len=*), intent(in) :: iotype
    integer, intent(out) :: iostat
    character(len=*), intent(inout) :: iomsg
    character(len=8) :: total
    write (total, '(i0)') self%inner%grams + self%outer%grams + size(v_list) + len(iotype)
    write (unit, '(dt, a, dt, a)', iostat=iostat, iomsg=iomsg) self%inner, ' in ', self%outer, '=' // trim(total)
  end subroutine

  subroutine read_weight(self, unit, iotype, v_list, iostat, iomsg)
    class(weight), intent(inout) :: self
    integer, intent(in) :: unit, v_list(:)
    character(len=*), intent(in) :: iotype
    integer, intent(out) :: iostat
    character(len=*), intent(inout) :: iomsg
    read (unit, '(i4)', iostat=iostat, iomsg=iomsg) self%grams
    self%grams = self%grams + size(v_list) + len(iotype) - 2
  end subroutine

  integer function grams_of(text)
    character(len=*), intent(in) :: text
    type(weight) :: found
    read (text, '(dt)') found
    grams_of = found%grams
  end function

  !> In a file of the thread's own.
  logical function is_kept_in_file(number)
    integer, intent(in) :: number
    integer :: unit, code
    character(len=80) :: line
    type(weight) :: found
    open (newunit=unit, status='scratch', action='readwrite')
    write (unit, '(dt)') parcel(weight(1), weight(number))
    write (unit, '(i4)') number
    rewind (unit)
    read (unit, '(a)', iostat=code) line
    is_kept_in_file = code == 0 .and. line(1:8) == '<3> in <'
    read (unit, '(dt)', iostat=code) found
    is_kept_in_file = is_kept_in_file .and. code == 0 .and. found%grams == number
    close (unit)
  end function

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
  use weights
  implicit none
  integer, parameter :: n = 64
  integer :: i, turn, factor, values(n), unit, wrong
  character(len=24) :: texts(n)
  character(len=80) :: line

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

  !$omp parallel do
  do i = 1, n
    call meet()
    !$omp critical
    write (texts(i), '(dt)') parcel(weight(i), weight(2 * i))
    !$omp end critical
  end do
  call check_text('types written to texts', texts(5) // texts(n))
  do i = 1, n
    write (texts(i), '(i4)') i
  end do
  !$omp parallel do
  do i = 1, n
    call meet()
    !$omp critical
    values(i) = grams_of(texts(i))
    !$omp end critical
  end do
  call check_int('types read from texts', sum(int(values, int64)))

  wrong = 0
  !$omp parallel reduction(+ : wrong)
  call meet()
  !$omp critical
  if (.not. is_kept_in_file(omp_get_thread_num())) wrong = wrong + 1
  !$omp end critical
  !$omp end parallel
  call check_int('types in files of one thread that are wrong', int(wrong, int64))

  open (newunit=unit, status='scratch', action='readwrite')
  !$omp parallel do ordered
  do i = 1, n
    call meet()
    !$omp ordered
    write (unit, '(dt)') parcel(weight(i), weight(i + 1))
    !$omp end ordered
  end do
  rewind (unit)
  do i = 1, n
    read (unit, '(a)') line
    if (mod(i, 9) == 0) call check_text('types in one file', line)
  end do
  close (unit)
  call finish()

contains

  integer function scaled(n)
    integer, intent(in) :: n
    scaled = n * factor
  end function
end program
