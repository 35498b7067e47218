! NPB SP: the flow problem of common/flow.f90, with scalar pentadiagonal systems in three sweeps a step.
!
! RNR-94-007, section 3.6: the blocks of BT are made diagonal, so that a line is five scalar systems, the first three of
! which have one matrix. Memory: allocatable arrays. Parallel: one region holds all steps; planes k go in static blocks,
! but lines along k are solved by blocks of j.
include 'common/npb.f90'
include 'common/flow.f90'

module sp_sweeps
  use npb, only: real64
  use flow
  implicit none
  private
  public :: advance

  integer, parameter :: most_points = 102
  real(real64), parameter :: half_root = 0.70710678118654752440_real64

contains

  pure real(real64) function sound_speed(u, p)
    real(real64), intent(in) :: u(components), p(components)
    sound_speed = sqrt(c1 * c2 * p(1) * (u(energy) - p(5) * u(1)))
  end function sound_speed

  ! From changes of the state to changes along the characteristics of the first direction.
  pure subroutine to_characteristics(u, p, r)
    real(real64), intent(in) :: u(components), p(components)
    real(real64), intent(inout) :: r(components)
    real(real64) :: speed, first, second, third
    speed = sound_speed(u, p)
    first = c2 / speed**2 * (p(5) * r(1) - p(2) * r(2) - p(3) * r(3) - p(4) * r(4) + r(5))
    second = half_root * p(1) * (p(2) * r(1) - r(2))
    third = half_root * p(1) * speed * first
    r = [r(1) - first, -p(1) * (p(4) * r(1) - r(4)), p(1) * (p(3) * r(1) - r(3)), third - second, third + second]
  end subroutine to_characteristics

  ! From the characteristics of a direction to those of the next, and after the last back to changes of the state.
  pure subroutine to_next(direction, u, p, r)
    integer, intent(in) :: direction
    real(real64), intent(in) :: u(components), p(components)
    real(real64), intent(inout) :: r(components)
    real(real64) :: mean, difference, speed, first, second
    mean = (r(4) + r(5)) / 2
    difference = half_root * (r(4) - r(5))
    select case (direction)
    case (1)
      r = [-r(2), r(1), difference, mean - half_root * r(3), mean + half_root * r(3)]
    case (2)
      r = [difference, -r(3), r(2), mean - half_root * r(1), mean + half_root * r(1)]
    case (3)
      speed = sound_speed(u, p)
      first = 2 * half_root * u(1) / speed * mean
      second = r(3) + first
      difference = u(1) * difference
      r = [second, p(2) * second - u(1) * r(2), p(3) * second + u(1) * r(1), p(4) * second + difference, &
        u(1) * (p(3) * r(1) - p(2) * r(2)) + p(5) * second + speed**2 / c2 * first + p(4) * difference]
    end select
  end subroutine to_next

  ! The diagonals -2 to 2 of a line's three matrices, for its inner points.
  pure subroutine make_bands(n, step, velocity, speed, spread, bands)
    integer, intent(in) :: n
    real(real64), intent(in) :: step, velocity(0:n - 1), speed(0:n - 1), spread(0:n - 1)
    real(real64), intent(out) :: bands(3, -2:2, n - 2)
    real(real64) :: half, square
    real(real64), parameter :: signs(3) = [0.0_real64, 1.0_real64, -1.0_real64]
    integer :: i
    half = step * (n - 1) / 2
    square = step * real(n - 1, real64)**2
    do i = 1, n - 2
      bands(:, -2, i) = step * dissipation
      bands(:, -1, i) = -half * (velocity(i - 1) + signs * speed(i - 1)) - square * spread(i - 1) - 4 * step * dissipation
      bands(:, 0, i) = 1 + 2 * square * spread(i) + merge(5, 6, i == 1 .or. i == n - 2) * step * dissipation
      bands(:, 1, i) = half * (velocity(i + 1) + signs * speed(i + 1)) - square * spread(i + 1) - 4 * step * dissipation
      bands(:, 2, i) = step * dissipation
    end do
  end subroutine make_bands

  ! Solves the five systems; beyond the inner points the line is zero.
  pure subroutine solve_bands(n, bands, line)
    integer, intent(in) :: n
    real(real64), intent(inout) :: bands(3, -2:2, n - 2), line(components, n)
    integer :: i, below
    do i = 1, n - 2
      bands(:, 1, i) = bands(:, 1, i) / bands(:, 0, i)
      bands(:, 2, i) = bands(:, 2, i) / bands(:, 0, i)
      line(1:3, i) = line(1:3, i) / bands(1, 0, i)
      line(4:5, i) = line(4:5, i) / bands(2:3, 0, i)
      do below = 1, min(2, n - 2 - i)
        associate (factor => bands(:, -below, i + below))
          bands(:, 1 - below, i + below) = bands(:, 1 - below, i + below) - factor * bands(:, 1, i)
          bands(:, 2 - below, i + below) = bands(:, 2 - below, i + below) - factor * bands(:, 2, i)
          line(1:3, i + below) = line(1:3, i + below) - factor(1) * line(1:3, i)
          line(4:5, i + below) = line(4:5, i + below) - factor(2:3) * line(4:5, i)
        end associate
      end do
    end do
    do i = n - 2, 1, -1
      line(1:3, i) = line(1:3, i) - bands(1, 1, i) * line(1:3, i + 1) - bands(1, 2, i) * line(1:3, i + 2)
      line(4:5, i) = line(4:5, i) - bands(2:3, 1, i) * line(4:5, i + 1) - bands(2:3, 2, i) * line(4:5, i + 2)
    end do
  end subroutine solve_bands

  ! The line begins with a point on the boundary.
  subroutine solve_line(direction, n, first, stride, step, u, prims, change)
    integer, intent(in) :: direction, n, first, stride
    real(real64), intent(in) :: step, u(components, 0:n**3 - 1), prims(components, 0:n**3 - 1)
    real(real64), intent(inout) :: change(components, 0:n**3 - 1)
    real(real64) :: velocity(0:most_points - 1), speed(0:most_points - 1), spread(0:most_points - 1)
    real(real64) :: bands(3, -2:2, most_points), line(components, most_points)
    integer :: i, at
    do i = 0, n - 1
      at = first + i * stride
      velocity(i) = prims(1 + direction, at)
      speed(i) = sound_speed(u(:, at), prims(:, at))
      spread(i) = diffusion(direction) + c1c5 * c3c4 * prims(1, at) ! the greatest of all components
    end do
    do i = 1, n - 2
      line(:, i) = change(:, first + i * stride)
    end do
    line(:, n - 1:n) = 0
    call make_bands(n, step, velocity, speed, spread, bands)
    call solve_bands(n, bands, line)
    do i = 1, n - 2
      at = first + i * stride
      call to_next(direction, u(:, at), prims(:, at), line(:, i))
      change(:, at) = line(:, i)
    end do
  end subroutine solve_line

  subroutine advance(n, step, u, forcing, prims, change)
    integer, intent(in) :: n
    real(real64), intent(in) :: step, forcing(components, 0:n**3 - 1)
    real(real64), intent(inout) :: u(components, 0:n**3 - 1), prims(components, 0:n**3 - 1)
    real(real64), intent(inout) :: change(components, 0:n**3 - 1)
    integer :: i, j, k, at
    call compute_change(n, step, u, forcing, prims, change)
    !$omp do schedule(static)
    do k = 1, n - 2
      do j = 1, n - 2
        do i = 1, n - 2
          at = i + n * (j + n * k)
          call to_characteristics(u(:, at), prims(:, at), change(:, at))
        end do
        call solve_line(1, n, n * (j + n * k), 1, step, u, prims, change)
      end do
      do i = 1, n - 2
        call solve_line(2, n, i + n * n * k, n, step, u, prims, change)
      end do
    end do
    !$omp end do
    !$omp do schedule(static)
    do j = 1, n - 2
      do i = 1, n - 2
        call solve_line(3, n, i + n * j, n * n, step, u, prims, change)
      end do
    end do
    !$omp end do
    call add_change(n, 1.0_real64, u, change)
  end subroutine advance

end module sp_sweeps

program sp
  use npb
  use flow
  use sp_sweeps, only: advance
  use omp_lib, only: omp_get_wtime
  implicit none

  integer, parameter :: all_points(4) = [12, 36, 64, 102], all_iterations(4) = [100, 400, 400, 400]
  real(real64), parameter :: all_steps(4) = [0.015_real64, 0.0015_real64, 0.0015_real64, 0.001_real64]
  real(real64), parameter :: residuals(components, 4) = reshape([ &
    2.7470315451339479e-02_real64, 1.0360746705285417e-02_real64, 1.6235745065095532e-02_real64, &
    1.5840557224455615e-02_real64, 3.4849040609362460e-02_real64, &
    0.1893253733584e-02_real64, 0.1717075447775e-03_real64, 0.2778153350936e-03_real64, &
    0.2887475409984e-03_real64, 0.3143611161242e-02_real64, &
    2.4799822399300195e+00_real64, 1.1276337964368832e+00_real64, 1.5028977888770491e+00_real64, &
    1.4217816211695179e+00_real64, 2.1292113035138280e+00_real64, &
    0.6903293579998e+02_real64, 0.3095134488084e+02_real64, 0.4103336647017e+02_real64, &
    0.3864769009604e+02_real64, 0.5643482272596e+02_real64], [components, 4])
  real(real64), parameter :: errors(components, 4) = reshape([ &
    2.7289258557377227e-05_real64, 1.0364446640837285e-05_real64, 1.6154798287166471e-05_real64, &
    1.5750704994480102e-05_real64, 3.4177666183390531e-05_real64, &
    0.7542088599534e-04_real64, 0.6512852253086e-05_real64, 0.1049092285688e-04_real64, &
    0.1128838671535e-04_real64, 0.1212845639773e-03_real64, &
    1.0900140297820550e-04_real64, 3.7343951769282091e-05_real64, 5.0092785406541633e-05_real64, &
    4.7671093939528255e-05_real64, 1.3621613399213001e-04_real64, &
    0.9810006190188e-02_real64, 0.1022827905670e-02_real64, 0.1720597911692e-02_real64, &
    0.1694479428231e-02_real64, 0.1847456263981e-01_real64], [components, 4])

  real(real64), allocatable :: u(:, :), forcing(:, :), prims(:, :), change(:, :)
  integer :: class_index, n, iterations, iteration, m
  real(real64) :: step, start, seconds, side, operations
  logical :: verified

  class_index = class_of_argument()
  n = all_points(class_index)
  iterations = all_iterations(class_index)
  step = all_steps(class_index)
  allocate (u(components, 0:n**3 - 1), forcing(components, 0:n**3 - 1))
  allocate (prims(components, 0:n**3 - 1), change(components, 0:n**3 - 1))

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
  call find_errors(n, 0, u)
  do m = 1, components
    verified = matches('error', m, sums(m), errors(m, class_index), 1.0e-8_real64) .and. verified
  end do
  side = real(n, real64)
  operations = 881.174_real64 * side**3 - 4683.91_real64 * side**2 + 11484.5_real64 * side - 19272.4_real64
  call report('SP', class_index, iterations, seconds, operations * 1.0e-6_real64 * iterations, verified)
end program sp
