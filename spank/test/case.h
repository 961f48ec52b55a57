#ifndef GRESNET_TEST_CASE_H
#define GRESNET_TEST_CASE_H

#include <stdbool.h>

/* HANGS is after how many seconds a case hangs. Each takes milliseconds, and on a slow machine seconds. */
enum { HANGS = 300 };

/* fail notes why the case that runs is wrong, in whichever process. */
__attribute__((format(printf, 1, 2))) void fail(const char *format, ...);
void check(bool ok, const char *what);

/* check_said fails unless the plugin logged one line that has the text; with
 * NULL, unless it logged nothing. */
void check_said(const char *text);

/* check_env fails unless the task has the variable, with NULL: has it not. */
void check_env(const char *name, const char *want);

/* in_child runs f in a process of its own, under a deadline. */
void in_child(void (*f)(const void *), const void *argument);

/* report prints the case's verdict and forgets it. */
bool report(const char *name);

/* start_program calls the last callback before a task's program. It returns 0, or -1 if
 * the task would end there. */
int start_program(char *argv[]);

/* count_entries counts the files of a directory, but for dot files. */
int count_entries(const char *path);

/* alone waits until this thread is the process's only one: /proc still has a thread
 * for a moment after it was joined, until the kernel has buried it. */
bool alone(void);

/* own_pids goes on in a PID namespace's second process, whose parent and whose namespace's
 * first process are in the container, too: CLONE_NEWPID. */
void own_pids(void);

/* guard_tests runs the cases of the guard of device nodes, as relay_tests does. */
int guard_tests(int *all);

/* inject_tests runs the cases of calls that fail, as relay_tests does. */
int inject_tests(int *all);

/* limit_tests runs the cases of the job's limits, as relay_tests does. */
int limit_tests(int *all);

/* session_tests runs the cases of the PAM module, as relay_tests does. */
int session_tests(int *all);

/* session_prepare makes the calling process one of a job's extern step, and session_run opens
 * a session there, as libpam does. It returns what the module returns. */
void session_prepare(void);
int session_run(void);

/* view_tests runs the cases of mounts that tasks share, as relay_tests does. */
int view_tests(int *all);

/* relay_tests runs the cases of the PMIx relay; all is how many there are. */
int relay_tests(int *all);

#endif
