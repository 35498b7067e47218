! region_units [modes | raw | direct | read | rewind | inquire | close | open | new | implicit | input]: units that each
! thread of a region opens itself, text to those of the first thread, and what another one cannot do with them.
program region_units
  use omp_lib
  implicit none
  character(len=64) :: what
  integer :: failures, shared_unit, own, got, i, j, me, status
  character(len=40) :: line
  integer, parameter :: lines = 210
  integer :: named
  namelist /group/ named
  logical :: is_open
  failures = 0
  call get_command_argument(1, what)
  open (unit=20, status='scratch')
  open (newunit=shared_unit, status='scratch')
  write (20, *) 1
  write (shared_unit, *) 2
  if (what == 'implicit') write (21, *) 3
  open (unit=23, status='scratch', delim='quote')
  open (unit=24, status='scratch', form='unformatted')
  open (unit=25, status='scratch', access='direct', form='formatted', recl=10)
!$omp parallel private(own, got, i, me, status, is_open) reduction(+:failures)
  me = omp_get_thread_num()
  ! A number that the library chooses, and one of the thread's own, used at the same time.
  do i = 1, 20
    open (newunit=own, status='scratch')
    open (unit=30 + me, status='scratch')
    write (own, *) me * 1000 + i
    write (30 + me, *) me * 2000 + i
    rewind (own)
    backspace (30 + me)
    read (own, *) got
    if (got /= me * 1000 + i) failures = failures + 1
    read (30 + me, *) got
    if (got /= me * 2000 + i) failures = failures + 1
    inquire (unit=own, opened=is_open)
    if (.not. is_open) failures = failures + 1
    inquire (file='/proc/self/exe', exist=is_open)
    if (.not. is_open) failures = failures + 1
    flush (30 + me)
    close (own)
    close (30 + me)
    open (unit=30 + me, file='/nowhere/at/all', status='old', iostat=status)
    if (status == 0) failures = failures + 1
  end do
!$omp barrier
  ! What one has closed another may open.
  if (me == 0) then
    open (unit=40, status='scratch')
    close (40)
  end if
!$omp barrier
  if (me == omp_get_num_threads() - 1) then
    open (unit=40, status='scratch')
    write (40, *) me
    close (40)
    select case (what)
    case ('modes')
      write (23, *) 'a text'
    case ('raw')
      write (24) me
    case ('direct')
      write (25, '(i10)', rec=1) me
    case ('read')
      read (20, *) got
    case ('rewind')
      rewind (20)
    case ('inquire')
      inquire (unit=20, opened=is_open)
    case ('close')
      close (20)
    case ('open')
      open (unit=20, status='scratch')
    case ('new')
      read (shared_unit, *) got
    case ('implicit')
      read (21, *) got
    case ('input')
      read (*, *, iostat=status) got
    end select
  end if
!$omp end parallel
  ! Text of all threads, in turn.
!$omp parallel do ordered schedule(static, 1) private(j)
  do i = 1, lines
!$omp ordered
    select case (mod(i, 6))
    case (0)
      write (20, *) i, 'listed'
    case (1)
      write (20, '(i6, 1x, a)') i, 'formatted'
    case (2)
      write (20, '(i6)', advance='no') i
      write (20, '(1x, a)') 'in parts'
    case (3)
      write (20, '(i6, 1x, a, /, a)') i, 'with another', 'line'
    case (4)
      write (20, *) (i, j = 1, 30)
    case (5)
      write (20, '(i6, 1x, a)') i, 'on both'
      write (shared_unit, *) i
    end select
!$omp end ordered
  end do
  named = 7
!$omp parallel
  if (omp_get_thread_num() == omp_get_num_threads() - 1) then
    write (20, group)
    write (20, '(a)') repeat('x', 3000000)
  end if
!$omp end parallel
  rewind (20)
  do
    read (20, '(a)', iostat=status) line
    if (status /= 0) exit
    print '(a)', trim(line)
  end do
  close (20)
  rewind (shared_unit)
  read (shared_unit, *) got
  if (got /= 2) failures = failures + 1
  do i = 5, lines, 6
    read (shared_unit, *) got
    if (got /= i) failures = failures + 1
  end do
  print '(a,i0,a)', 'units in regions: ', failures, ' failures'
  if (failures /= 0) stop 1
end program
