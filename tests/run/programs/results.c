/// \file
/// What functions of the C library return by a pointer to memory that they keep: found by all threads.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <grp.h>
#include <langinfo.h>
#include <libintl.h>
#include <locale.h>
#include <netdb.h>
#include <netinet/ether.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "check.h"

/// How many threads find the same text there.
static int find(const char* text, const char* expected) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += text != NULL && strcmp(text, expected) == 0;
  }
  return right;
}

/// A copy for the comparison, made by the thread that has called the function.
static char* copy(const char* text) {
  return text == NULL ? NULL : strdup(text);
}

static void names_and_numbers(void) {
  int point;
  int sign;
  check_int("ecvt", find(ecvt(1.5, 3, &point, &sign), "150"));
  check_int("fcvt", find(fcvt(2.5, 1, &point, &sign), "25"));
  check_int("qecvt", find(qecvt(1.5L, 3, &point, &sign), "150"));
  check_int("qfcvt", find(qfcvt(2.5L, 1, &point, &sign), "25"));
  check_int("l64a", find(l64a(12345), "t.1"));
  const struct ether_addr address = {{1, 2, 3, 4, 5, 0xa6}};
  check_int("ether_ntoa", find(ether_ntoa(&address), "1:2:3:4:5:a6"));
  const char* text = strerror(2222);
  check_int("strerror, unknown", find(text, copy(text)));
  text = strerror(2);
  check_int("strerror", find(text, copy(text)));
  text = strsignal(SIGRTMIN + 3);
  check_int("strsignal", find(text, copy(text)));
  text = setlocale(LC_ALL, "C.UTF-8");
  check_int("setlocale", find(text, "C.UTF-8"));
  text = setlocale(LC_CTYPE, NULL);
  check_int("setlocale, asked", find(text, "C.UTF-8"));
  check_int("nl_langinfo", find(nl_langinfo(CODESET), "UTF-8"));
  const struct lconv* const conventions = localeconv();
  check_int("localeconv", find(conventions->decimal_point, "."));
}

/// What one thread has said holds for all.
static void domains(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += strcmp(textdomain(NULL), "messages") == 0 && bindtextdomain("of-results", NULL) != NULL;
#pragma omp barrier
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      right += strcmp(textdomain("of-results"), "of-results") == 0;
      right += strcmp(bindtextdomain("of-results", "/nowhere"), "/nowhere") == 0;
      right += strcmp(bind_textdomain_codeset("of-results", "UTF-8"), "UTF-8") == 0;
    }
#pragma omp barrier
    right += strcmp(textdomain(NULL), "of-results") == 0;
    right += strcmp(bindtextdomain("of-results", NULL), "/nowhere") == 0;
    right += strcmp(bind_textdomain_codeset("of-results", NULL), "UTF-8") == 0;
    right += strcmp(gettext("not translated"), "not translated") == 0;
  }
  check_int("text domains", right);
}

static void times(void) {
  const time_t moment = 1700000000;
  setenv("TZ", "XYZ-3", 1);
  tzset();
  check_int("tzname", find(tzname[0], "XYZ"));
  const struct tm* time = localtime(&moment);
  check_int("the zone of localtime", find(time->tm_zone, "XYZ"));
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += time->tm_year == 123 && time->tm_hour == 1;
  }
  check_int("localtime", right);
  time = gmtime(&moment);
  right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += time->tm_year == 123 && time->tm_hour == 22;
  }
  check_int("gmtime", right);
  static struct tm filled;
  check_int("the zone of localtime_r", find(localtime_r(&moment, &filled)->tm_zone, "XYZ"));
  static struct tm counted = {.tm_year = 123, .tm_mon = 10, .tm_mday = 15, .tm_isdst = -1};
  right = mktime(&counted) == 1700000000 - 3600 - 13 * 60 - 20;
  check_int("mktime", right);
  check_int("its zone", find(counted.tm_zone, "XYZ"));
  check_int("the zone of gmtime_r", find(gmtime_r(&moment, &filled)->tm_zone, "GMT"));
  right = timegm(&filled) == moment;
  struct tm beyond = {.tm_year = 2147483647, .tm_mon = 2147483647, .tm_zone = (const char*)1};
  right += mktime(&beyond) == -1 && beyond.tm_zone == (const char*)1;
  check_int("timegm", right);
  check_int("its zone", find(filled.tm_zone, "GMT"));
  check_int("ctime", find(ctime(&moment), "Wed Nov 15 01:13:20 2023\n"));
  check_int("asctime", find(asctime(gmtime(&moment)), "Tue Nov 14 22:13:20 2023\n"));
}

/// The next text that strtok() finds, by whichever thread's turn it is.
static void tokens(void) {
  enum { words = 40 };
  char text[4 * words + 1];
  char expected[4 * words + 1] = "";
  char* found[words];
  for (int i = 0; i < words; ++i) snprintf(text + 4 * i, 5, "%03d%c", i, i + 1 < words ? ' ' : '\0');
  memcpy(expected, text, sizeof text);
  found[0] = strtok(text, " ");
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 1; i < words; ++i) {
    take_part();
#pragma omp ordered
    found[i] = strtok(NULL, " ");
  }
  int right = 0;
  for (int i = 0; i < words; ++i)
    right += found[i] == text + 4 * i && strncmp(found[i], expected + 4 * i, 3) == 0;
  check_int("strtok", right);
  check_int("the end of strtok", strtok(NULL, " ") == NULL);
}

/// Threads that have looked at the time before see another zone when one thread has chosen it.
static void change_zones(void) {
  const time_t moment = 1700000000;
  static const char* const zones[] = {"ABC-1", "DEF-2", "GHI-4"};
  int hours = 0;
  for (int i = 0; i < 4; ++i) {
    if (i < 3) setenv("TZ", zones[i], 1);
    if (i == 3) unsetenv("TZ");
    i == 1 ? (void)localtime(&moment) : tzset();
#pragma omp parallel reduction(+ : hours)
    {
      take_part();
      struct tm time;
      localtime_r(&moment, &time);
      hours += (i + 1) * time.tm_hour;
    }
    check_int("localtime_r in another zone", hours);
  }
}

static void databases(void) {
  const struct passwd* const user = getpwuid(0);
  check_int("getpwuid", find(user->pw_name, "root"));
  const char* home = user->pw_dir;
  check_int("the home of getpwuid", find(home, copy(home)));
  check_int("getpwnam", find(getpwnam("root")->pw_name, "root"));
  check_int("getgrgid", find(getgrgid(0)->gr_name, "root"));
  const struct group* const group = getgrnam("root");
  int right = 0;
  int members = 0;
  for (char** one = group->gr_mem; *one != NULL; ++one) ++members;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    int found = 0;
    for (char** one = group->gr_mem; *one != NULL; ++one) ++found;
    right += found == members && group->gr_gid == 0;
  }
  check_int("getgrnam", right);
  right = getpwnam("nobody-has-this-name") == NULL;
  check_int("getpwnam, in vain", right);
  const struct hostent* const host = gethostbyname("127.0.0.1");
  right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += host->h_length == 4 && memcmp(host->h_addr_list[0], "\177\0\0\1", 4) == 0 &&
             host->h_addr_list[1] == NULL;
  }
  check_int("gethostbyname", right);
  check_int("its name", find(host->h_name, "127.0.0.1"));
  // Not every machine has the list of services.
  const struct servent* const service = getservbyname("http", "tcp");
  right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += service == NULL || (service->s_port == htons(80) && strcmp(service->s_proto, "tcp") == 0);
  }
  check_int("getservbyname", right);
}

int main(void) {
  names_and_numbers();
  domains();
  times();
  tokens();
  change_zones();
  databases();
  return finish();
}
