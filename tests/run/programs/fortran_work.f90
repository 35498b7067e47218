!> The constructs, as Fortran writes them.
module shapes
  implicit none
  type :: extent
    integer :: least = huge(1)
    integer :: most = -huge(1)
  end type
contains
  type(extent) function widened(one, other)
    type(extent), intent(in) :: one, other
    widened = extent(min(one%least, other%least), max(one%most, other%most))
  end function

  recursive subroutine fibonacci(n, value)
    integer, intent(in) :: n
    integer, intent(out) :: value
    integer :: first, second
    if (n < 2) then
      value = n
      return
    end if
    !$omp task shared(first) firstprivate(n) final(n < 8)
    call fibonacci(n - 1, first)
    !$omp end task
    !$omp task shared(second) firstprivate(n) final(n < 8)
    call fibonacci(n - 2, second)
    !$omp end task
    !$omp taskwait
    value = first + second
  end subroutine
end module

program fortran_work
  use omp_lib
  use check
  use shapes
  implicit none
  integer, parameter :: n = 500
  integer :: i, j, team, word, counts(n), histogram(0:9), best, number, order(40), place
  integer(int64) :: total
  integer(int64) :: i8
  real(8) :: real_sum, least, most
  complex(8) :: complex_sum
  logical :: all_true, any_true, same
  real(8), allocatable :: bins(:)
  type(extent) :: covered
  integer(omp_lock_kind) :: lock
  integer(omp_nest_lock_kind) :: nest
  integer(omp_sched_kind) :: kind
  integer :: chunk
  !$omp declare reduction(widen : extent : omp_out = widened(omp_out, omp_in)) initializer(omp_priv = extent())

  team = omp_get_max_threads()
  counts = 0
  !$omp parallel do schedule(static, 7)
  do i = 1, n
    call take_part()
    counts(i) = counts(i) + 1
  end do
  call check_int('static', int(sum(counts), int64))
  !$omp parallel do schedule(dynamic, 3)
  do i = n, 1, -1
    call meet()
    counts(i) = counts(i) + i
  end do
  call check_int('dynamic', int(sum(counts), int64))
  !$omp parallel do schedule(guided)
  do i = 1, n
    call meet()
    counts(i) = counts(i) - 1
  end do
  call check_int('guided', int(sum(counts), int64))
  call omp_set_schedule(omp_sched_dynamic, 9)
  !$omp parallel do schedule(runtime)
  do i8 = 1_int64, int(n, int64)
    call meet()
    counts(i8) = counts(i8) + 2
  end do
  call check_int('runtime, of 8 bytes', int(sum(counts), int64))
  call omp_get_schedule(kind, chunk)
  call check_int('schedule', int(kind * 100 + chunk, int64))
  word = 0
  !$omp parallel do collapse(2) lastprivate(word) schedule(dynamic)
  do i = 1, 20
    do j = 1, 25
      call meet()
      counts((i - 1) * 25 + j) = i * j
      word = i * 1000 + j
    end do
  end do
  call check_int('collapse', int(sum(counts), int64))
  call check_int('lastprivate', int(word, int64))

  total = 0
  real_sum = 0.5d0
  complex_sum = 0
  least = 1d9
  most = -1d9
  all_true = .true.
  any_true = .false.
  same = .true.
  word = 0
  !$omp parallel do reduction(+ : total, real_sum, complex_sum) reduction(min : least) reduction(max : most) &
  !$omp reduction(.and. : all_true) reduction(.or. : any_true) reduction(.eqv. : same) reduction(ieor : word)
  do i = 1, n
    call take_part()
    total = total + i
    real_sum = real_sum + 0.5d0 * i
    complex_sum = complex_sum + cmplx(i, 2 * i, 8)
    least = min(least, real(mod(i * 37, 501), 8))
    most = max(most, real(mod(i * 37, 501), 8))
    all_true = all_true .and. i > 0
    any_true = any_true .or. i == 77
    same = same .eqv. mod(i, 3) == 0
    word = ieor(word, i * 5)
  end do
  call check_int('sum', total)
  call check_real('real sum', real_sum)
  call check_real('complex sum', real(complex_sum) * 1000 + aimag(complex_sum))
  call check_real('extremes', least * 1000 + most)
  call check_int('logical', int(merge(1, 0, all_true) + merge(2, 0, any_true) + merge(4, 0, same), int64))
  call check_int('exclusive or', int(word, int64))
  histogram = 0
  allocate (bins(200))
  bins = 1
  !$omp parallel do reduction(+ : histogram, bins)
  do i = 1, n
    call take_part()
    histogram(mod(i * i, 10)) = histogram(mod(i * i, 10)) + 1
    bins(mod(i, 200) + 1) = bins(mod(i, 200) + 1) + i
  end do
  call check_int('array', sum([(int(histogram(i), int64) * 7**i, i = 0, 9)]))
  call check_real('allocatable array', sum([(bins(i) * i, i = 1, 200)]))
  !$omp parallel do reduction(widen : covered)
  do i = 1, n
    call take_part()
    covered = widened(covered, extent(mod(i * 77, 499) - 50, mod(i * 77, 499) - 50))
  end do
  call check_int('user-defined', int(covered%least * 1000 + covered%most, int64))

  number = 0
  best = 0
  !$omp parallel private(word, i)
  call take_part()
  do i = 1, 10
    !$omp single
    word = 100 * i
    !$omp end single copyprivate(word)
    !$omp atomic
    number = number + word
    !$omp critical (the_best)
    best = max(best, word + omp_get_thread_num())
    !$omp end critical (the_best)
  end do
  !$omp barrier
  !$omp master
  number = number + 1
  !$omp end master
  !$omp end parallel
  call check_int('single copyprivate, atomic and master', int(number, int64))
  call check_int('critical', int(best, int64))
  counts = 0
  !$omp parallel
  call take_part()
  !$omp sections
  !$omp section
  counts(1) = 1
  !$omp section
  counts(2) = 2
  !$omp section
  counts(3) = 4
  !$omp end sections
  !$omp end parallel
  call check_int('sections', int(sum(counts), int64))
  place = 0
  !$omp parallel do ordered schedule(dynamic)
  do i = 1, 40
    call meet()
    !$omp ordered
    place = place + 1
    order(place) = i
    !$omp end ordered
  end do
  call check_int('ordered', int(count(order == [(i, i = 1, 40)]), int64))

  number = 0
  !$omp parallel
  call take_part()
  !$omp single
  call fibonacci(15, number)
  !$omp end single
  !$omp end parallel
  call check_int('tasks', int(number, int64))
  counts = 0
  !$omp parallel
  call take_part()
  !$omp single
  !$omp taskloop grainsize(20)
  do i = 1, n
    counts(i) = i
  end do
  do i = 2, 20
    !$omp task depend(in : counts(i - 1)) depend(out : counts(i)) firstprivate(i)
    counts(i) = counts(i - 1) + 3
    !$omp end task
  end do
  !$omp end single
  !$omp end parallel
  call check_int('taskloop and dependences', int(sum(counts), int64))

  call omp_init_lock(lock)
  call omp_init_nest_lock(nest)
  number = 0
  !$omp parallel private(i)
  call take_part()
  do i = 1, 50
    call omp_set_lock(lock)
    number = number + i
    call omp_unset_lock(lock)
    call omp_set_nest_lock(nest)
    call omp_set_nest_lock(nest)
    best = best + 1
    call omp_unset_nest_lock(nest)
    call omp_unset_nest_lock(nest)
  end do
  !$omp end parallel
  call omp_destroy_lock(lock)
  call omp_destroy_nest_lock(nest)
  call check_int('lock', int(number, int64))
  call check_int('nest lock', int(best, int64))

  number = 0
  !$omp parallel reduction(+ : number)
  call take_part()
  if (omp_in_parallel() .and. omp_get_num_threads() == team) number = 1
  number = number + 10 * omp_get_level() + 100 * omp_get_active_level() + 1000 * omp_get_team_size(1)
  !$omp end parallel
  call check_int('routines', int(number, int64))
  call check_int('dynamic, nested', int(merge(1, 0, omp_get_dynamic()) + 2 * omp_get_max_active_levels(), int64))
  call omp_set_num_threads(team + 1)
  number = 0
  !$omp parallel reduction(+ : number)
  call take_part()
  number = number + 1
  !$omp end parallel
  call check_int('omp_set_num_threads', int(number, int64))
  call omp_set_max_active_levels(2)
  number = 0
  !$omp parallel num_threads(team)
  call take_part()
  !$omp parallel num_threads(2)
  !$omp atomic
  number = number + omp_get_thread_num() + 1
  !$omp end parallel
  !$omp end parallel
  call check_int('nested', int(number, int64))
  do i = 1, team
    !$omp parallel
    if (omp_get_thread_num() == 0) print '(a, i0)', 'printed by the master, turn ', i
    !$omp end parallel
  end do
  call finish()
end program
