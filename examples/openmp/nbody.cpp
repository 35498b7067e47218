// Bodies that attract each other, each pair summed directly: a plain OpenMP program.
//
//   g++ -std=c++20 -O2 -fopenmp nbody.cpp && ./a.out
//
// Arguments: bodies (2000), steps (50). No energy may get lost or come out of nothing, and no momentum.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

constexpr double step = 1.0 / 256;
constexpr double softening = 0.05;  // keeps two bodies that meet from being torn apart

using Vector = std::array<double, 3>;

struct Body {
  Vector place, velocity, acceleration;
};

// A ball of bodies with unit mass in total, at rest.
std::vector<Body> draw_bodies(std::size_t count) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Body> bodies(count);
  for (Body& body : bodies) {
    double square = 2;
    while (square > 1) {
      square = 0;
      for (double& coordinate : body.place) {
        coordinate = uniform(generator);
        square += coordinate * coordinate;
      }
    }
  }
  return bodies;
}

// The attraction of all bodies on one; returns the body's potential energy.
double attract(const std::vector<Body>& bodies, std::size_t index, Vector& acceleration) {
  const double mass = 1 / static_cast<double>(bodies.size());
  const Vector& place = bodies[index].place;
  double x = 0;
  double y = 0;
  double z = 0;
  double potential = mass / softening;  // what the body does to itself
  for (const Body& other : bodies) {
    const double dx = other.place[0] - place[0];
    const double dy = other.place[1] - place[1];
    const double dz = other.place[2] - place[2];
    const double inverse = 1 / std::sqrt(dx * dx + dy * dy + dz * dz + softening * softening);
    const double pull = mass * inverse * inverse * inverse;
    x += pull * dx;
    y += pull * dy;
    z += pull * dz;
    potential -= mass * inverse;
  }
  acceleration = {x, y, z};
  return mass * potential / 2;
}

void push(Body& body, double duration) {
  for (std::size_t d = 0; d < 3; ++d) body.velocity[d] += duration * body.acceleration[d];
}

// By leapfrog: half a push, a move, half a push. Returns the potential energy at the end.
double simulate(std::vector<Body>& bodies, long steps) {
  double potential = 0;
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < bodies.size(); ++i) attract(bodies, i, bodies[i].acceleration);
    for (long done = 0; done < steps; ++done) {
#pragma omp single
      potential = 0;
#pragma omp for schedule(static)
      for (std::size_t i = 0; i < bodies.size(); ++i) {
        push(bodies[i], step / 2);
        for (std::size_t d = 0; d < 3; ++d) bodies[i].place[d] += step * bodies[i].velocity[d];
      }
#pragma omp for schedule(static) reduction(+ : potential)
      for (std::size_t i = 0; i < bodies.size(); ++i) {
        potential += attract(bodies, i, bodies[i].acceleration);
        push(bodies[i], step / 2);
      }
    }
  }
  return potential;
}

double potential_of(const std::vector<Body>& bodies) {
  double potential = 0;
  Vector ignored;
  for (std::size_t i = 0; i < bodies.size(); ++i) potential += attract(bodies, i, ignored);
  return potential;
}

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 2000;
  const long steps = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 50;
  if (argc > 3 || count < 2 || count > 10'000'000 || steps < 1) {
    std::fprintf(stderr, "%s: the arguments are bodies, 2 to 10000000, and steps\n", argv[0]);
    return 2;
  }
  std::vector<Body> bodies = draw_bodies(static_cast<std::size_t>(count));
  const double before = potential_of(bodies);  // all are at rest
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads = 1;

  const auto start = std::chrono::steady_clock::now();
  const double potential = simulate(bodies, steps);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

  double kinetic = 0;
  Vector momentum = {};
  for (const Body& body : bodies) {
    for (std::size_t d = 0; d < 3; ++d) {
      kinetic += body.velocity[d] * body.velocity[d] / static_cast<double>(2 * count);
      momentum[d] += body.velocity[d] / static_cast<double>(count);
    }
  }
  const double drift = std::abs((kinetic + potential - before) / before);
  const double drifting = std::hypot(momentum[0], momentum[1], momentum[2]);
  std::printf("  energy %.9f, of which kinetic %.9f; drift of the energy %.1e, momentum %.1e\n",
              kinetic + potential, kinetic, drift, drifting);
  std::printf("nbody %ld bodies, %ld steps: %d threads, %.3f s\n", count, steps, threads, elapsed.count());
  const bool verified = kinetic > 0 && drift <= 1e-3 && drifting <= 1e-12;
  std::puts(verified ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  return verified ? 0 : 1;
}
