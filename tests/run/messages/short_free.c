/* With a malloc of its own whose free() is one byte, and the next function begins behind it. */
#include <stddef.h>
#include <stdio.h>

static _Alignas(16) char arena[1 << 20];
static size_t used;

void* malloc(size_t bytes) {
  used += (bytes + 31) / 16 * 16;
  return arena + used - (bytes + 31) / 16 * 16;
}
void free(void* pointer);
__asm__(
    ".globl free\n.type free, @function\nfree:\n  ret\n.size free, 1\n"
    ".type next, @function\nnext:\n  xor %eax, %eax\n  ret\n.size next, 3\n");

int main(void) {
#pragma omp parallel
  puts("a thread");
  return 0;
}
