/* Reading and writing of every kind, into and out of memory that the kernel cannot use. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { small = 3000, large = 700 * 1024 + 123 };
static char outside[threads_most][large + 8192];

static void fill(char* bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i) bytes[i] = (char)((i * 131 + i / 4096 * 7 + seed) & 0xff);
}
static int differs(const char* bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i)
    if (bytes[i] != (char)((i * 131 + i / 4096 * 7 + seed) & 0xff)) return (int)i + 1;
  return 0;
}

static void files(int me) {
  char name[64];
  snprintf(name, sizeof name, "/tmp/craton-transfers-%d-XXXXXX", (int)getpid());
  int fd = mkstemp(name);
  CHECK(fd >= 0, 1);
  CHECK(unlink(name), 0);
  char* from = fresh(large);
  fill(from, large, (unsigned)me);
  CHECK(write(fd, from, large), large);
  CHECK(lseek(fd, 0, SEEK_SET), 0);
  CHECK(read(fd, outside[me], large + 100), large);
  CHECK(differs(outside[me], large, (unsigned)me), 0);
  char* to = fresh(large);
  CHECK(pread(fd, to, large, 0), large);
  CHECK(differs(to, large, (unsigned)me), 0);
  to = fresh(small);
  CHECK(pread64(fd, to, small, 0), small);
  CHECK(differs(to, small, (unsigned)me), 0);
  CHECK(pwrite(fd, from, small, 0), small);

  /* In pieces: one on the stack, which the kernel can use, and two in fresh memory. */
  char here[100];
  struct iovec* pieces = fresh(3 * sizeof *pieces);
  pieces[0] = (struct iovec){fresh(5000), 5000};
  pieces[1] = (struct iovec){here, sizeof here};
  pieces[2] = (struct iovec){fresh(large), large - 5100};
  CHECK(preadv(fd, pieces, 3, 0), large);
  char* whole = fresh(large);
  memcpy(whole, pieces[0].iov_base, 5000);
  memcpy(whole + 5000, here, 100);
  memcpy(whole + 5100, pieces[2].iov_base, large - 5100);
  CHECK(differs(whole, large, (unsigned)me), 0);
  CHECK(pwritev(fd, pieces, 3, 0), large);
  CHECK(lseek(fd, 0, SEEK_SET), 0);
  pieces[0].iov_base = fresh(5000);
  CHECK(readv(fd, pieces, 3), large);
  CHECK(memcmp(pieces[0].iov_base, whole, 5000), 0);
  CHECK(lseek(fd, 0, SEEK_SET), 0);
  CHECK(writev(fd, pieces, 3), large);
  CHECK(read(fd, fresh(10), 10), 0);
  CHECK_ERROR(read(-1, fresh(10), 10), EBADF);

  off_t* offset = fresh(sizeof *offset);
  int to_file = memfd_create("target", 0);
  CHECK(sendfile(to_file, fd, offset, 4000), 4000);
  CHECK(*offset, 4000);
  close(to_file);
  close(fd);
}

static void* write_all(void* argument) {
  int fd = *(int*)argument;
  char* from = fresh(large);
  fill(from, large, 77);
  CHECK(write(fd, from, large), large); /* blocks until the other side has read it */
  close(fd);
  return NULL;
}

static void pipes(void) {
  int* ends = fresh(2 * sizeof *ends);
  CHECK(pipe(ends), 0);
  char* from = fresh_text("through a pipe");
  CHECK(write(ends[1], from, 15), 15);
  char* to = fresh(100);
  CHECK(read(ends[0], to, 100), 15);
  CHECK(strcmp(to, "through a pipe"), 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &write_all, &ends[1]), 0);
  char* all = fresh(large);
  long done = 0;
  for (long got = 1; got > 0 && done < large; done += got) {
    got = read(ends[0], all + done, (size_t)(large - done));
    if (got < 0) break;
  }
  CHECK(done, large);
  CHECK(differs(all, large, 77), 0);
  pthread_join(thread, NULL);
  close(ends[0]);
}

static void sockets(void) {
  int* pair = fresh(2 * sizeof *pair);
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
  char* from = fresh(5000);
  fill(from, 5000, 5);
  CHECK(send(pair[0], from, 5000, 0), 5000);
  char* to = fresh(9000);
  CHECK(recv(pair[1], to, 9000, 0), 5000);
  CHECK(differs(to, 5000, 5), 0);

  /* A descriptor and a message in pieces. */
  struct msghdr* message = fresh(sizeof *message);
  struct iovec* pieces = fresh(2 * sizeof *pieces);
  pieces[0] = (struct iovec){from, 2000};
  pieces[1] = (struct iovec){from + 2000, 3000};
  char* control = fresh(CMSG_SPACE(sizeof(int)));
  memset(message, 0, sizeof *message);
  message->msg_iov = pieces;
  message->msg_iovlen = 2;
  message->msg_control = control;
  message->msg_controllen = CMSG_SPACE(sizeof(int));
  struct cmsghdr* header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
  CHECK(sendmsg(pair[0], message, 0), 5000);
  struct msghdr* got = fresh(sizeof *got);
  struct iovec* into = fresh(2 * sizeof *into);
  into[0] = (struct iovec){fresh(1000), 1000};
  into[1] = (struct iovec){fresh(9000), 9000};
  memset(got, 0, sizeof *got);
  got->msg_iov = into;
  got->msg_iovlen = 2;
  got->msg_control = fresh(200);
  got->msg_controllen = 200;
  CHECK(recvmsg(pair[1], got, 0), 5000);
  CHECK(memcmp(into[0].iov_base, from, 1000), 0);
  CHECK(memcmp(into[1].iov_base, from + 1000, 4000), 0);
  CHECK(got->msg_controllen, CMSG_SPACE(sizeof(int)));
  int passed = -1;
  memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(got)), sizeof passed);
  CHECK(fcntl(passed, F_GETFD) >= 0, 1);
  close(passed);
  close(pair[0]);
  close(pair[1]);

  /* UDP: what is lost stays lost. */
  struct sockaddr_in* address = fresh(sizeof *address);
  socklen_t* bytes = fresh(sizeof *bytes);
  int one = socket(AF_INET, SOCK_DGRAM, 0);
  int other = socket(AF_INET, SOCK_DGRAM, 0);
  memset(address, 0, sizeof *address);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(one, (struct sockaddr*)address, sizeof *address), 0);
  *bytes = sizeof *address;
  struct sockaddr_in* name = fresh(sizeof *name);
  CHECK(getsockname(one, (struct sockaddr*)name, bytes), 0);
  for (int i = 0; i < 20; ++i) {
    CHECK(sendto(other, from, 1000, 0, (struct sockaddr*)name, sizeof *name), 1000);
    struct sockaddr_in* who = fresh(sizeof *who);
    socklen_t* room = fresh(sizeof *room);
    *room = sizeof *who;
    CHECK(recvfrom(one, fresh(2000), 2000, 0, (struct sockaddr*)who, room), 1000);
    CHECK(who->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  }
  int* value = fresh(sizeof *value);
  socklen_t* value_bytes = fresh(sizeof *value_bytes);
  *value_bytes = sizeof *value;
  CHECK(getsockopt(one, SOL_SOCKET, SO_TYPE, value, value_bytes), 0);
  CHECK(*value, SOCK_DGRAM);
  *value = 1;
  CHECK(setsockopt(one, SOL_SOCKET, SO_REUSEADDR, value, sizeof *value), 0);
  close(one);
  close(other);

  int listener = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr*)address, sizeof *address), 0);
  CHECK(listen(listener, 5), 0);
  *bytes = sizeof *name;
  CHECK(getsockname(listener, (struct sockaddr*)name, bytes), 0);
  int client = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(client, (struct sockaddr*)name, sizeof *name), 0);
  struct sockaddr_in* peer = fresh(sizeof *peer);
  socklen_t* peer_bytes = fresh(sizeof *peer_bytes);
  *peer_bytes = sizeof *peer;
  int server = accept(listener, (struct sockaddr*)peer, peer_bytes);
  CHECK(server >= 0, 1);
  CHECK(peer->sin_family, AF_INET);
  int* writer = malloc(sizeof *writer);
  *writer = client;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &write_all, writer), 0);
  char* all = fresh(large);
  CHECK(recv(server, all, large, MSG_WAITALL), large);
  CHECK(differs(all, large, 77), 0);
  pthread_join(thread, NULL);
  close(server);
  close(listener);
}

/* Messages are whole, however large. */
static void large_messages(void) {
  enum { bytes = 300000 };
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  int room = 2 * bytes;
  CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
  char* from = fresh(bytes);
  fill(from, bytes, 9);
  CHECK(write(pair[0], from, bytes), bytes);
  char* to = fresh(1 << 20);
  CHECK(read(pair[1], to, 1 << 20), bytes);
  CHECK(differs(to, bytes, 9), 0);
  CHECK(write(pair[0], from, bytes), bytes);
  struct iovec pieces[2] = {{fresh(1000), 1000}, {fresh(1 << 20), 1 << 20}};
  CHECK(readv(pair[1], pieces, 2), bytes);
  CHECK(memcmp(pieces[0].iov_base, from, 1000), 0);
  CHECK(memcmp(pieces[1].iov_base, from + 1000, bytes - 1000), 0);
  close(pair[0]);
  close(pair[1]);
}

/* What the kernel reads only when there is room for it at the other end. */
static void read_later(int by_message) {
  enum { each = 40000, count = 4 };
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  int value = 4096;
  CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &value, sizeof value), 0);
  CHECK(bind(listener, (struct sockaddr*)&address, bytes), 0);
  CHECK(listen(listener, 1), 0);
  CHECK(getsockname(listener, (struct sockaddr*)&address, &bytes), 0);
  int client = socket(AF_INET, SOCK_STREAM, 0);
  value = 4 << 20;
  CHECK(setsockopt(client, SOL_SOCKET, SO_SNDBUF, &value, sizeof value), 0);
  value = 1;
  CHECK(setsockopt(client, SOL_SOCKET, SO_ZEROCOPY, &value, sizeof value), 0);
  CHECK(connect(client, (struct sockaddr*)&address, sizeof address), 0);
  int server = accept(listener, NULL, NULL);
  long sent = 0;
  for (int i = 0; i < count; ++i) {
    char* from = fresh(each);
    memset(from, 'a' + i, each);
    struct iovec piece = {from, each};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    long put = by_message ? sendmsg(client, &message, MSG_ZEROCOPY | MSG_DONTWAIT)
                          : send(client, from, each, MSG_ZEROCOPY | MSG_DONTWAIT);
    CHECK(put, each);
    sent += put;
  }
  char* to = fresh(4096);
  int wrong = 0;
  for (long done = 0; done < sent;) {
    long got = read(server, to, 4096);
    CHECK(got > 0, 1);
    if (got <= 0) break;
    for (long i = 0; i < got; ++i) wrong += to[i] != 'a' + (done + i) / each;
    done += got;
  }
  CHECK(wrong, 0);
  close(client);
  close(server);
  close(listener);
}

/* Of the C library only from 2.36 on. */
extern void arc4random_buf(void* buffer, size_t bytes) __attribute__((weak));

static void random_bytes(void) {
  CHECK(getrandom(fresh(300), 300, 0), 300);
  CHECK(getrandom(fresh(1 << 20), 1 << 20, 0), 1 << 20);
  CHECK(getentropy(fresh(100), 100), 0);
  if (arc4random_buf == NULL) return;
  char* bytes = fresh(large);
  arc4random_buf(bytes, large);
  int zeros = 0;
  for (int i = large - 4096; i < large; ++i) zeros += bytes[i] == 0;
  CHECK(zeros < 200, 1);
}

/* Lists of pieces that the kernel refuses as a whole. */
static void refused_pieces(void) {
  int fd = memfd_create("pieces", 0);
  struct iovec* pieces = fresh(1025 * sizeof *pieces);
  char* from = fresh(1025);
  for (int i = 0; i < 1025; ++i) pieces[i] = (struct iovec){from + i, 1};
  CHECK_ERROR(writev(fd, pieces, 1025), EINVAL);
  CHECK(writev(fd, pieces, 1024), 1024);
  CHECK(lseek(fd, 0, SEEK_SET), 0);
  CHECK_ERROR(readv(fd, pieces, 1025), EINVAL);
  CHECK_ERROR(preadv(fd, pieces, 1025, 0), EINVAL);
  CHECK_ERROR(pwritev(fd, pieces, 1025, 0), EINVAL);
  pieces[1].iov_len = SIZE_MAX;
  CHECK_ERROR(readv(fd, pieces, 2), EINVAL);
  CHECK_ERROR(writev(fd, pieces, 2), EINVAL);
  close(fd);
}

int main(void) {
#pragma omp parallel
  {
    files(omp_get_thread_num());
    random_bytes();
    refused_pieces();
  }
  pipes();
  sockets();
  large_messages();
  read_later(0);
  read_later(1);
  return report("transfers");
}
