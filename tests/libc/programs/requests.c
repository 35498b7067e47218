/* Requests of ioctl() and options of sockets: memory of sizes that nothing tells, and what it points to. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/fiemap.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

/* The last bytes of a page, and the next one. */
static void* before_page_end(size_t bytes) {
  return (char*)fresh(8192) + 4096 - bytes;
}

static void interfaces(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(fd >= 0, 1);
  struct ifreq first;
  memset(&first, 0, sizeof first);
  strcpy(first.ifr_name, "lo");
  CHECK(ioctl(fd, SIOCGIFINDEX, &first), 0);
  CHECK(first.ifr_ifindex > 0, 1);
  for (size_t bytes = 8; bytes < sizeof first; bytes += 8) {
    struct ifreq* request = before_page_end(bytes);
    memset(request, 0, sizeof *request);
    strcpy(request->ifr_name, "lo");
    CHECK(ioctl(fd, SIOCGIFINDEX, request), 0);
    CHECK(request->ifr_ifindex, first.ifr_ifindex);
  }

  struct ifconf list = {.ifc_len = 10000, .ifc_buf = fresh(10000)};
  CHECK(ioctl(fd, SIOCGIFCONF, &list), 0);
  CHECK(list.ifc_len >= (int)sizeof(struct ifreq), 1);
  CHECK(list.ifc_len % (int)sizeof(struct ifreq), 0);
  CHECK(strcmp(list.ifc_req->ifr_name, "lo"), 0);

  struct ethtool_value* link = fresh(sizeof *link);
  *link = (struct ethtool_value){.cmd = ETHTOOL_GLINK, .data = 99};
  first.ifr_data = (char*)link;
  int can_ask = ioctl(fd, SIOCETHTOOL, &first) == 0;
  CHECK(can_ask, 1);
  CHECK(link->data <= 1, 1);
  close(fd);
}

static void options(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sock_filter* all = fresh(sizeof *all);
  *all = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0xffff);
  struct sock_fprog program = {.len = 1, .filter = all};
  CHECK(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  struct sock_fprog* other = fresh(sizeof *other);
  *other = program;
  CHECK(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, other, sizeof *other), 0);
  other->len = 0;
  CHECK_ERROR(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, other, sizeof *other), EINVAL);

  struct sockaddr_in* address = fresh(sizeof *address);
  socklen_t* bytes = fresh(sizeof *bytes);
  *bytes = (socklen_t)-1;
  CHECK_ERROR(getsockname(fd, (struct sockaddr*)address, bytes), EINVAL);
  CHECK_ERROR(getsockopt(fd, SOL_SOCKET, SO_TYPE, address, bytes), EINVAL);
  CHECK_ERROR(bind(fd, (struct sockaddr*)address, *bytes), EINVAL);
  CHECK_ERROR(connect(fd, (struct sockaddr*)address, 1 << 30), EINVAL);
  *bytes = 1 << 30;
  CHECK(getsockname(fd, (struct sockaddr*)address, bytes), 0);
  CHECK(*bytes, sizeof *address);
  CHECK(address->sin_family, AF_INET);
  close(fd);
}

/* More than the size that is in the request's number, and than a stack has room for. */
static void extents(void) {
  enum { count = 200 };
  char name[] = "/tmp/craton-requests-XXXXXX";
  int fd = mkstemp(name);
  CHECK(unlink(name), 0);
  char* from = fresh(4096);
  memset(from, 1, 4096);
  for (long i = 0; i < count + 100; ++i) CHECK(pwrite(fd, from, 4096, i * 3 * 65536), 4096);
  struct fiemap* map = fresh(sizeof *map + count * sizeof *map->fm_extents);
  memset(map, 0, sizeof *map);
  map->fm_length = ~0ULL;
  map->fm_flags = FIEMAP_FLAG_SYNC;
  map->fm_extent_count = count;
  if (ioctl(fd, FS_IOC_FIEMAP, map) == 0) {
    CHECK(map->fm_mapped_extents, count);
    for (long i = 0; i < count; ++i) CHECK(map->fm_extents[i].fe_logical, i * 3 * 65536);
  } else {
    CHECK(errno, EOPNOTSUPP); /* not every file system tells */
  }
  close(fd);
}

int main(void) {
#pragma omp parallel
  {
    interfaces();
    options();
    extents();
  }
  return report("requests");
}
