!> What the Fortran programs share, as check.h for C: a line for each result, and in which processes the threads of
!> each region ran.
module check
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use omp_lib
  implicit none
  private
  public :: take_part, meet, check_int, check_real, check_text, finish, int64, real64, most_threads

  integer, parameter :: most_threads = 64
  integer :: process_of(0:most_threads - 1) = 0
  integer :: fewest_processes = most_threads + 1
  character(len=64) :: name_of_fewest = ''

  interface
    function process_id() bind(c, name='getpid')
      import :: c_int
      integer(c_int) :: process_id
    end function
    function sleep_us(us) bind(c, name='usleep')
      import :: c_int
      integer(c_int), value :: us
      integer(c_int) :: sleep_us
    end function
  end interface

contains

  !> Notes that this thread was in the region.
  subroutine take_part()
    integer :: self, process
    self = omp_get_ancestor_thread_num(1)
    process = process_id()
    !$omp atomic write
    process_of(self) = process
  end subroutine

  !> The same, and the first time waits until all threads of the team have. See check.h.
  subroutine meet()
    integer :: self, other, process, slept, status
    double precision :: end
    self = omp_get_ancestor_thread_num(1)
    !$omp atomic read
    process = process_of(self)
    if (process /= 0) return
    call take_part()
    call get_environment_variable('CHECK_NO_MEETING', status=status)
    if (status /= 1) return
    end = omp_get_wtime() + 60
    other = 0
    do while (other < omp_get_team_size(1))
      if (omp_get_wtime() > end) error stop 'a thread has waited a minute for another'
      !$omp flush
      !$omp atomic read
      process = process_of(other)
      if (process /= 0) then
        other = other + 1
      else
        slept = sleep_us(50_c_int)
      end if
    end do
  end subroutine

  subroutine count_processes(name)
    character(len=*), intent(in) :: name
    integer :: i, processes
    processes = 0
    do i = 0, most_threads - 1
      if (process_of(i) /= 0 .and. .not. any(process_of(0:i - 1) == process_of(i))) processes = processes + 1
    end do
    process_of = 0
    if (processes == 0 .or. processes >= fewest_processes) return
    fewest_processes = processes
    name_of_fewest = name
  end subroutine

  subroutine check_int(name, value)
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: value
    write (*, '(3a, i0)') 'check ', name, ': ', value
    call count_processes(name)
  end subroutine

  !> Exact: sums must not depend on their order.
  subroutine check_real(name, value)
    character(len=*), intent(in) :: name
    real(real64), intent(in) :: value
    write (*, '(3a, es26.17e3)') 'check ', name, ': ', value
    call count_processes(name)
  end subroutine

  subroutine check_text(name, value)
    character(len=*), intent(in) :: name, value
    write (*, '(4a)') 'check ', name, ': ', trim(value)
    call count_processes(name)
  end subroutine

  !> Says how many processes took part in each region at least.
  subroutine finish()
    write (error_unit, '(a, i0, 2a)') 'processes: ', fewest_processes, ', as in ', trim(name_of_fewest)
  end subroutine

end module
