! NPB LU: the flow problem of common/flow.f90, with a symmetric successive over-relaxation step.
!
! RNR-94-007, section 3.4 ("lower-upper"). A point needs its lower neighbours' new values (the upper ones' in the second
! sweep), so the sweeps run as a pipeline: threads own blocks of rows j, and go plane by plane.
!
!            j block 0   1     2         a flag between two threads: the first sets it when its rows of a plane
!   plane 3     done   works  waits      are done, the second clears it when it has seen it. Plain variables,
!   plane 4     works  waits  waits      volatile, made visible by flushes: two threads write each.
!
! Memory: static arrays as large as class B, used as far as the class needs. Parallel: one region holds all steps.
include 'common/npb.f90'
include 'common/flow.f90'

module lu_sweeps
  use, intrinsic :: iso_c_binding, only: c_int
  use npb, only: real64
  use flow
  use omp_lib, only: omp_get_num_threads, omp_get_thread_num
  implicit none
  private
  public :: advance

  real(real64), parameter :: omega = 1.2_real64
  integer, parameter :: most_threads = 1024, flags_a_line = 16 ! a cache line each
  integer, parameter :: polls_a_yield = 1000
  integer, volatile :: done(flags_a_line, 0:most_threads) = 0  ! done(1, t): between threads t - 1 and t

  interface
    integer(c_int) function sched_yield() bind(c)
      import :: c_int
    end function sched_yield
  end interface

contains

  ! One look at flags that another thread is to change; with more threads than processors it must get to run.
  subroutine poll(polls)
    integer, intent(inout) :: polls
    integer(c_int) :: ignored
    !$omp flush
    polls = polls + 1
    if (mod(polls, polls_a_yield) == 0) ignored = sched_yield()
  end subroutine poll

  subroutine wait_for(flag)
    integer, intent(in) :: flag
    integer :: polls
    polls = 0
    do while (done(1, flag) == 0)
      call poll(polls)
    end do
    done(1, flag) = 0
    !$omp flush
  end subroutine wait_for

  subroutine tell(flag)
    integer, intent(in) :: flag
    integer :: polls
    polls = 0
    !$omp flush
    do while (done(1, flag) == 1)
      call poll(polls)
    end do
    done(1, flag) = 1
    !$omp flush
  end subroutine tell

  ! Subtracts (half * convective - square * (viscous + diffusion)) * x, the flux derivatives of one direction by
  ! the state (u, p) times a vector, without making the matrices.
  pure subroutine subtract_product(direction, half, square, u, p, x, total)
    integer, intent(in) :: direction
    real(real64), intent(in) :: half, square, u(components), p(components), x(components)
    real(real64), intent(inout) :: total(components)
    real(real64) :: pressure, enthalpy, flow_through, convective(components), viscous(components)
    integer :: normal
    normal = 1 + direction
    pressure = c2 * (p(5) * x(1) - p(2) * x(2) - p(3) * x(3) - p(4) * x(4) + x(5))
    enthalpy = c1 * u(energy) * p(1) - c2 * p(5)
    flow_through = x(normal) - p(normal) * x(1)
    convective(1) = x(normal)
    convective(2:4) = p(2:4) * flow_through + p(normal) * x(2:4)
    convective(normal) = convective(normal) + pressure
    convective(energy) = p(normal) * (x(5) + pressure) + enthalpy * flow_through
    viscous(1) = 0
    viscous(2:4) = c3c4 * p(1) * (x(2:4) - p(2:4) * x(1))
    viscous(energy) = c3c4 * c1c5 * p(1) * (x(5) - u(energy) * p(1) * x(1)) + &
      (1 - c1c5) * (p(2) * viscous(2) + p(3) * viscous(3) + p(4) * viscous(4)) + p(normal) * viscous(normal) / 3
    viscous(normal) = viscous(normal) * (4.0_real64 / 3)
    total = total - half * convective + square * (viscous + diffusion(direction) * x)
  end subroutine subtract_product

  ! Solves block * y = x in place of x, where the block is that of the point itself: 1 + 2 * square * (viscous +
  ! diffusion), summed over directions. It has no entry above its diagonal.
  pure subroutine solve_block(square, u, p, x)
    real(real64), intent(in) :: square, u(components), p(components)
    real(real64), intent(inout) :: x(components)
    real(real64) :: conduction, heat, rest, weights(2:4)
    conduction = 2 * square * c3c4 * p(1) * (2 + 4.0_real64 / 3)
    heat = 2 * square * c3c4 * p(1) * 3 * c1c5
    rest = 1 + 2 * square * sum(diffusion)
    weights = (conduction - heat) * p(2:4)
    x(1) = x(1) / rest
    x(2:4) = (x(2:4) + conduction * p(2:4) * x(1)) / (rest + conduction)
    x(5) = (x(5) - dot_product(weights, x(2:4) - p(2:4) * x(1)) + heat * p(1) * u(energy) * x(1)) / (rest + heat)
  end subroutine solve_block

  ! One point of the lower sweep, to_neighbour = -1, or of the upper one, 1.
  pure subroutine relax(to_neighbour, n, at, step, u, prims, change)
    integer, intent(in) :: to_neighbour, n, at
    real(real64), intent(in) :: step, u(components, 0:n**3 - 1), prims(components, 0:n**3 - 1)
    real(real64), intent(inout) :: change(components, 0:n**3 - 1)
    real(real64) :: half, square, total(components)
    integer :: direction, stride, neighbour
    half = omega * to_neighbour * step * (n - 1) / 2
    square = step * real(n - 1, real64)**2
    total = 0
    if (to_neighbour < 0) total = change(:, at)
    stride = 1
    do direction = 1, directions
      neighbour = at + to_neighbour * stride
      call subtract_product(direction, half, omega * square, u(:, neighbour), prims(:, neighbour), &
        change(:, neighbour), total)
      stride = stride * n
    end do
    call solve_block(square, u(:, at), prims(:, at), total)
    if (to_neighbour > 0) total = total + change(:, at)
    change(:, at) = total
  end subroutine relax

  subroutine advance(n, step, u, forcing, prims, change)
    integer, intent(in) :: n
    real(real64), intent(in) :: step, forcing(components, 0:n**3 - 1)
    real(real64), intent(inout) :: u(components, 0:n**3 - 1), prims(components, 0:n**3 - 1)
    real(real64), intent(inout) :: change(components, 0:n**3 - 1)
    integer :: i, j, k, thread, threads, first, last
    thread = omp_get_thread_num()
    threads = omp_get_num_threads()
    first = 1 + (n - 2) * thread / threads
    last = (n - 2) * (thread + 1) / threads
    call compute_change(n, step, u, forcing, prims, change)
    do k = 1, n - 2
      if (thread > 0) call wait_for(thread)
      do j = first, last
        do i = 1, n - 2
          call relax(-1, n, i + n * (j + n * k), step, u, prims, change)
        end do
      end do
      if (thread < threads - 1) call tell(thread + 1)
    end do
    !$omp barrier
    do k = n - 2, 1, -1
      if (thread < threads - 1) call wait_for(thread + 1)
      do j = last, first, -1
        do i = n - 2, 1, -1
          call relax(1, n, i + n * (j + n * k), step, u, prims, change)
        end do
      end do
      if (thread > 0) call tell(thread)
    end do
    !$omp barrier
    call add_change(n, 1 / (omega * (2 - omega)), u, change)
  end subroutine advance

end module lu_sweeps

! Static arrays that no subroutine may take for its own.
module lu_state
  use npb, only: real64
  use flow, only: components
  implicit none
  integer, parameter :: most_points = 102
  real(real64), save, dimension(components, 0:most_points**3 - 1) :: u, forcing, prims, change
end module lu_state

program lu
  use npb
  use flow
  use lu_state
  use lu_sweeps, only: advance
  use omp_lib, only: omp_get_wtime
  implicit none

  integer, parameter :: all_points(4) = [12, 33, 64, 102], all_iterations(4) = [50, 300, 250, 250]
  real(real64), parameter :: all_steps(4) = [0.5_real64, 0.0015_real64, 2.0_real64, 2.0_real64]
  real(real64), parameter :: residuals(components, 4) = reshape([ &
    1.6196343210976702e-02_real64, 2.1976745164821318e-03_real64, 1.5179927653399185e-03_real64, &
    1.5029584435994323e-03_real64, 3.4264073155896461e-02_real64, &
    0.1236511638192e+02_real64, 0.1317228477799e+01_real64, 0.2550120713095e+01_real64, &
    0.2326187750252e+01_real64, 0.2826799444189e+02_real64, &
    7.7902107606689367e+02_real64, 6.3402765259692870e+01_real64, 1.9499249727292479e+02_real64, &
    1.7845301160418537e+02_real64, 1.8384760349464247e+03_real64, &
    3.5532672969982736e+03_real64, 2.6214750795310692e+02_real64, 8.8333721850952190e+02_real64, &
    7.7812774739425265e+02_real64, 7.3087969592545314e+03_real64], [components, 4])
  real(real64), parameter :: errors(components, 4) = reshape([ &
    6.4223319957960924e-04_real64, 8.4144342047347926e-05_real64, 5.8588269616485186e-05_real64, &
    5.8474222595157350e-05_real64, 1.3103347914111294e-03_real64, &
    0.4867877144216e+00_real64, 0.5064652880982e-01_real64, 0.9281818101960e-01_real64, &
    0.8570126542733e-01_real64, 0.1084277417792e+01_real64, &
    2.9964085685471943e+01_real64, 2.8194576365003349e+00_real64, 7.3473412698774742e+00_real64, &
    6.7139225687777051e+00_real64, 7.0715315688392578e+01_real64, &
    1.1401176380212709e+02_real64, 8.1098963655421574e+00_real64, 2.8480597317698308e+01_real64, &
    2.5905394567832939e+01_real64, 2.6054907504857413e+02_real64], [components, 4])
  real(real64), parameter :: surface_integrals(4) = [7.8418928865937083e+00_real64, 0.1161399311023e+02_real64, &
    2.6030925604886277e+01_real64, 4.7887162703308227e+01_real64]

  integer :: class_index, n, iterations, iteration, m
  real(real64) :: step, start, seconds, side, operations
  logical :: verified

  class_index = class_of_argument()
  n = all_points(class_index)
  iterations = all_iterations(class_index)
  step = all_steps(class_index)

  !$omp parallel private(iteration)
  call prepare(n, u, forcing, prims, change)
  call advance(n, step, u, forcing, prims, change) ! not timed: touches all pages
  call start_from(n, u, .false.)
  !$omp single
  start = omp_get_wtime()
  !$omp end single
  do iteration = 1, iterations
    call advance(n, step, u, forcing, prims, change)
  end do
  !$omp end parallel
  seconds = omp_get_wtime() - start

  !$omp parallel
  call compute_change(n, 1.0_real64, u, forcing, prims, change)
  !$omp end parallel
  call find_residuals(n, change)
  verified = .true.
  do m = 1, components
    verified = matches('residual', m, sums(m), residuals(m, class_index), 1.0e-8_real64) .and. verified
  end do
  call find_errors(n, 1, u)
  do m = 1, components
    verified = matches('error', m, sums(m), errors(m, class_index), 1.0e-8_real64) .and. verified
  end do
  verified = matches('surface', 1, surface_integral(), surface_integrals(class_index), 1.0e-8_real64) .and. verified
  side = real(n, real64)
  operations = 1984.77_real64 * side**3 - 10923.3_real64 * side**2 + 27770.9_real64 * side - 144010.0_real64
  call report('LU', class_index, iterations, seconds, operations * 1.0e-6_real64 * iterations, verified)

contains

  ! The pressure's integral over the faces of an inner box, by the trapezoidal rule.
  real(real64) function surface_integral()
    integer :: low(3), high(3), place(3), direction, along, across, a, b, face
    real(real64) :: weight
    low = [1, 1, 2]
    high = [n - 2, n - 3, n - 2]
    surface_integral = 0
    do direction = 1, 3
      along = mod(direction, 3) + 1
      across = mod(direction + 1, 3) + 1
      do face = 1, 2
        place(direction) = merge(low(direction), high(direction), face == 1)
        do b = low(across), high(across)
          do a = low(along), high(along)
            place(along) = a
            place(across) = b
            weight = merge(1, 2, a == low(along) .or. a == high(along)) * &
              merge(1, 2, b == low(across) .or. b == high(across))
            surface_integral = surface_integral + weight * pressure(place(1) + n * (place(2) + n * place(3)))
          end do
        end do
      end do
    end do
    surface_integral = surface_integral / (4 * real(n - 1, real64)**2)
  end function surface_integral

  real(real64) function pressure(at)
    integer, intent(in) :: at
    pressure = c2 * (u(energy, at) - 0.5_real64 * (u(2, at)**2 + u(3, at)**2 + u(4, at)**2) / u(1, at))
  end function pressure

end program lu
