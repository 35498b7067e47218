/* Calls that take names of files and fill structures about them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "check.h"

/* Names in several pages of the program's data, some of which rank 0 has no copy of at first. */
static struct {
  char before[5000];
  char self[16];
  char between[9000];
  char root[8];
  char after[5000];
} data = {"x", "/proc/self/exe", "y", "/", "z"};

static char* path_in(const char* folder, const char* name) {
  char text[PATH_MAX];
  snprintf(text, sizeof text, "%s/%s", folder, name);
  return fresh_text(text);
}

static int is_shown(const struct dirent* entry) {
  return entry->d_name[0] != '.';
}

static void names(int me) {
  struct stat* status = fresh(sizeof *status);
  CHECK(stat(data.self, status), 0);
  CHECK(S_ISREG(status->st_mode), 1);
  CHECK(lstat(data.self, fresh(sizeof *status)), 0);
  CHECK(access(data.root, R_OK), 0);
  CHECK(stat(data.root, fresh(sizeof *status)), 0);

  char template[64];
  snprintf(template, sizeof template, "/tmp/craton-names-%d-XXXXXX", me);
  char* folder = mkdtemp(fresh_text(template));
  CHECK(folder != NULL, 1);
  char* one = path_in(folder, "one");
  char* two = path_in(folder, "two");
  int fd = open(one, O_CREAT | O_RDWR | O_EXCL, 0600);
  CHECK(fd >= 0, 1);
  CHECK(fstat(fd, fresh(sizeof *status)), 0);
  CHECK(statx(AT_FDCWD, one, 0, STATX_ALL, fresh(sizeof(struct statx))), 0);
  CHECK(fstatat(AT_FDCWD, one, fresh(sizeof *status), 0), 0);
  CHECK(statfs(folder, fresh(sizeof(struct statfs))), 0);
  CHECK(fstatfs(fd, fresh(sizeof(struct statfs))), 0);
  CHECK(statvfs(folder, fresh(sizeof(struct statvfs))), 0);
  CHECK(ftruncate(fd, 100), 0);
  int* bytes = fresh(sizeof *bytes);
  CHECK(ioctl(fd, FIONREAD, bytes), 0);
  CHECK(*bytes, 100);
  struct flock* lock = fresh(sizeof *lock);
  *lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
  CHECK(fcntl(fd, F_SETLK, lock), 0);
  CHECK(fcntl(fd, F_GETLK, lock), 0);
  CHECK(lock->l_type, F_UNLCK);
  close(fd);
  CHECK(access(fresh_text(one), F_OK), 0);
  CHECK(chmod(one, 0640), 0);
  CHECK(chown(one, (uid_t)-1, (gid_t)-1), 0);
  CHECK(truncate(one, 50), 0);
  struct timeval* times = fresh(2 * sizeof *times);
  times[0] = times[1] = (struct timeval){1000, 0};
  CHECK(utimes(one, times), 0);
  CHECK(stat(one, status), 0);
  CHECK(status->st_size, 50);
  CHECK(status->st_mode & 0777, 0640);
  CHECK(status->st_mtime, 1000);
  struct timespec* exact = fresh(2 * sizeof *exact);
  exact[0] = exact[1] = (struct timespec){2000, 5};
  CHECK(utimensat(AT_FDCWD, one, exact, 0), 0);
  struct timeval* again = fresh(2 * sizeof *again);
  again[0] = again[1] = (struct timeval){3000, 0};
  CHECK(futimesat(AT_FDCWD, fresh_text(one), again), 0);
  int can_mark = lsetxattr(fresh_text(one), fresh_text("user.mark"), fresh_text("seen"), 5, 0) == 0;
  CHECK(can_mark || errno == EOPNOTSUPP, 1);
  if (can_mark) {
    char* mark = fresh(100);
    CHECK(lgetxattr(fresh_text(one), fresh_text("user.mark"), mark, 100), 5);
    CHECK(strcmp(mark, "seen"), 0);
    CHECK(llistxattr(fresh_text(one), fresh(1000), 1000) >= 10, 1);
    CHECK(removexattr(fresh_text(one), fresh_text("user.mark")), 0);
    CHECK_ERROR(lremovexattr(fresh_text(one), fresh_text("user.mark")), ENODATA);
  }
  struct file_handle* handle = fresh(sizeof *handle + MAX_HANDLE_SZ);
  handle->handle_bytes = MAX_HANDLE_SZ;
  int has_handle = name_to_handle_at(AT_FDCWD, fresh_text(one), handle, fresh(sizeof(int)), 0) == 0;
  CHECK(has_handle || errno == EOPNOTSUPP, 1);
  int opened = open(folder, O_RDONLY | O_DIRECTORY);
  CHECK(getdirentries(opened, fresh(4096), 4096, fresh(sizeof(off_t))) > 0, 1);
  char* fifo = path_in(folder, "fifo");
  CHECK(mknodat(AT_FDCWD, fifo, S_IFIFO | 0600, 0), 0);
  CHECK(unlink(fifo), 0);
  close(opened);
  CHECK(link(one, two), 0);
  char* three = path_in(folder, "three");
  CHECK(symlink(fresh_text("two"), three), 0);
  char* target = fresh(100);
  memset(target, '#', 4);
  CHECK(readlink(three, target, 100), 3);
  CHECK(memcmp(target, "two", 3), 0);
  CHECK(readlink(three, fresh(2), 2), 2);
  char* resolved = realpath(three, NULL);
  CHECK(strcmp(resolved, two), 0);
  free(resolved);
  CHECK(strcmp(realpath(three, fresh(PATH_MAX)), two), 0);
  char* missing = fresh(PATH_MAX);
  CHECK_ERROR(realpath(fresh_text("/proc/no-such-folder/below/it"), missing), ENOENT);
  CHECK(strcmp(missing, "/proc/no-such-folder"), 0);
  char* four = path_in(folder, "four");
  CHECK(rename(two, four), 0);
  char* inner = path_in(folder, "inner");
  CHECK(mkdir(inner, 0700), 0);
  CHECK_ERROR(mkdir(inner, 0700), EEXIST);
  struct dirent*** list = fresh(sizeof *list);
  CHECK(scandir(folder, list, &is_shown, &alphasort), 4);
  CHECK(strcmp((*list)[0]->d_name, "four"), 0);
  for (int i = 0; i < 4; ++i) free((*list)[i]);
  free(*list);
  DIR* stream = opendir(folder);
  CHECK(stream != NULL, 1);
  int count = 0;
  while (readdir(stream) != NULL) ++count;
  CHECK(count, 6);
  CHECK(closedir(stream), 0);
  CHECK(rmdir(inner), 0);
  CHECK(unlink(one), 0);
  CHECK(unlink(three), 0);
  CHECK(remove(four), 0);
  CHECK(rmdir(folder), 0);
  CHECK_ERROR(open(path_in(folder, "gone"), O_RDONLY), ENOENT);
  CHECK_ERROR(stat((char*)8, status), EFAULT); /* as without us */
  char* too_long = fresh(2 * PATH_MAX);
  memset(too_long, 'a', 2 * PATH_MAX - 1);
  too_long[2 * PATH_MAX - 1] = 0;
  CHECK_ERROR(open(too_long, O_RDONLY), ENAMETOOLONG);
}

int main(void) {
#pragma omp parallel
  names(omp_get_thread_num());
  CHECK(chdir(fresh_text("/tmp")), 0);
  CHECK(strcmp(getcwd(fresh(100), 100), "/tmp"), 0);
  CHECK_ERROR(getcwd(fresh(100), 2), ERANGE);
  char* own = getcwd(NULL, 0);
  CHECK(strcmp(own, "/tmp"), 0);
  free(own);
  own = get_current_dir_name();
  CHECK(own != NULL, 1);
  free(own);
  return report("names");
}
