! Units of the Fortran library, and its handlers of signals.
program units
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  interface
    integer(c_int) function getpid() bind(c)
      import :: c_int
    end function
  end interface
  character(len=64) :: name, line
  character(len=:), allocatable :: text
  integer :: i, failures, got, status
  real(8), allocatable :: values(:), again(:)
  failures = 0
  write (name, '(a,i0)') '/tmp/craton-units-', getpid()
  allocate (values(200000), again(200000))
  do i = 1, size(values)
    values(i) = i * 0.5d0
  end do
  open (unit=20, file=trim(name), form='unformatted', access='stream', status='new')
  write (20) values
  rewind (20)
  read (20) again
  if (any(again /= values)) failures = failures + 1
  close (20, status='delete')
  open (unit=21, file=trim(name), form='formatted', status='new')
  do i = 1, 1000
    write (21, '(i6,1x,a)') i, 'a line'
  end do
  rewind (21)
  do i = 1, 1000
    read (21, '(i6,1x,a)') got, line
    if (got /= i .or. line /= 'a line') failures = failures + 1
  end do
  inquire (file=trim(name), size=got)
  if (got /= 14000) failures = failures + 1
  close (21, status='delete')
  open (unit=22, status='scratch', form='unformatted', access='direct', recl=8000)
  do i = 1, 25
    write (22, rec=i) values((i - 1) * 1000 + 1:i * 1000)
  end do
  read (22, rec=13) again(1:1000)
  if (any(again(1:1000) /= values(12001:13000))) failures = failures + 1
  close (22)
  text = repeat('x', 30000)
  print '(a)', text
  call get_environment_variable('PATH', line, status=status)
  if (status == 1) failures = failures + 1
  call execute_command_line('exit 3', exitstat=status)
  if (status /= 3) failures = failures + 1
  print '(a,i0,a)', 'units: ', failures, ' failures'
  if (failures /= 0) stop 1
end program
