/*
 * ref LIBRARY: asks Slurm's own parser, that of libslurmfull.so. Each line of stdin is a question:
 *
 *   conf FILE   the file's pairs, one a line, "+" before those that begin a line of it
 *   slurm FILE  what slurmd takes of a slurm.conf for Prolog and Epilog, "+ KEY VALUE", in its order
 *   hosts LIST  the names of a hostlist
 *
 * Bytes are in hexadecimal, in questions and in answers. An answer ends with "ok" or "refused".
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hostlist;

typedef int handler(void **data, int type, const char *key, const char *value, const char *line, char **leftover);

enum { STRING = 1, ARRAY = 7 };

/* One of Slurm's s_p_options_t: five words up to 22.05, seven since. */
static size_t words;

static void *(*create)(const void *options);
static void (*destroy)(void *table);
static int (*parse_file)(void *table, uint32_t *hash, char *file, uint32_t flags, char *ancestor);
static int (*parse_line)(void *table, const char *line, char **leftover);
static char *(*xstrdup)(const char *text);
static int (*get_string)(char **value, const char *key, void *table);
static int (*get_array)(void ***values, int *count, const char *key, void *table);
static const void *const *slurm_options; /* all that Slurm's own slurm.conf can have */
static struct hostlist *(*hosts_create)(const char *text, int dims);
static char *(*hosts_shift)(struct hostlist *list, int dims);
static void (*hosts_destroy)(struct hostlist *list);

/* At least as large as any Slurm's log_options_t; zeros are silence. It is passed on the stack. */
struct quiet {
	long words[16];
};

/* A file that is missing is missing: Slurm would look again each second. */
unsigned int sleep(unsigned int seconds)
{
	(void)seconds;
	return 0;
}

/* Slurm's own has this name, too, and would be libc's here. */
int error(const char *format, ...)
{
	(void)format;
	return -1;
}

static void print_hex(const char *text)
{
	for (; *text; text++)
		printf("%02x", (unsigned char)*text);
}

static void print_pair(char mark, const char *key, const char *value)
{
	printf("%c ", mark);
	print_hex(key);
	printf(" ");
	print_hex(value);
	printf("\n");
}

static int simple(void **data, int type, const char *key, const char *value, const char *line, char **leftover)
{
	(void)type, (void)line, (void)leftover;
	print_pair('+', key, value);
	*data = xstrdup(value);
	return 1;
}

static int inner(void **data, int type, const char *key, const char *value, const char *line, char **leftover)
{
	(void)data, (void)type, (void)line, (void)leftover;
	print_pair('-', key, value);
	return 0;
}

static void *table(const char *const *keys, int type, handler *of)
{
	void *options[64 * 7] = { 0 };
	size_t at = 0;

	for (; *keys; keys++, at += words) {
		options[at] = (void *)*keys;
		options[at + 1] = (void *)(intptr_t)type;
		options[at + 2] = (void *)of;
	}
	return create(options);
}

/* A line of nodes has more pairs, as Slurm's own handlers read them. */
static int wide(void **data, int type, const char *key, const char *value, const char *line, char **leftover)
{
	static const char *const keys[] = { "NodeAddr", "NodeHostname", "Port", "Gres", "Reason", "CPUs", "Name",
					    "File", "Files", "Type", "Count", NULL };
	void *t = table(keys, STRING, inner);

	(void)data, (void)type, (void)line;
	print_pair('+', key, value);
	parse_line(t, *leftover, leftover);
	destroy(t);
	return 0;
}

static bool conf(char *file)
{
	static const char *const simples[] = { "ClusterName", "JobCompPass", "MailProg", "Prolog", "SlurmctldHost", NULL };
	static const char *const wides[] = { "NodeName", "PartitionName", "Name", NULL };
	void *options[64 * 7] = { 0 };
	size_t at = 0;
	void *t;
	int rc;

	for (size_t i = 0; simples[i]; i++, at += words) {
		options[at] = (void *)simples[i];
		options[at + 1] = (void *)(intptr_t)STRING;
		options[at + 2] = (void *)simple;
	}
	for (size_t i = 0; wides[i]; i++, at += words) {
		options[at] = (void *)wides[i];
		options[at + 1] = (void *)(intptr_t)ARRAY;
		options[at + 2] = (void *)wide;
	}
	if (setenv("SLURM_CONF", file, 1))
		return false;
	t = create(options);
	rc = parse_file(t, NULL, file, 0, NULL);
	destroy(t);
	return rc == 0;
}

/* type_of is what Slurm takes a key of slurm.conf for. */
static int type_of(const char *key)
{
	for (const void *const *option = slurm_options; *option; option += words)
		if (!strcmp(*option, key))
			return (int)(uint32_t)(uintptr_t)option[1];
	return -1;
}

static void print_scripts(void *t, const char *key)
{
	void **values = NULL;
	char *value = NULL;
	int count = 0;

	if (type_of(key) == STRING && get_string(&value, key, t))
		print_pair('+', key, value);
	if (type_of(key) != ARRAY || !get_array(&values, &count, key, t))
		return;
	for (int i = 0; i < count; i++)
		print_pair('+', key, values[i]);
}

static bool slurm(char *file)
{
	void *t;
	bool ok;

	if (setenv("SLURM_CONF", file, 1))
		return false;
	t = create(slurm_options);
	ok = parse_file(t, NULL, file, 0, NULL) == 0;
	if (ok) {
		print_scripts(t, "Prolog");
		print_scripts(t, "Epilog");
	}
	destroy(t);
	return ok;
}

static bool hosts(const char *text)
{
	struct hostlist *list = hosts_create(text, 1);
	char *name;

	if (!list)
		return false;
	while ((name = hosts_shift(list, 1))) {
		print_hex(name);
		printf("\n");
		free(name);
	}
	hosts_destroy(list);
	return true;
}

/* unhex reads bytes in place; no NUL is among them. */
static char *unhex(char *text)
{
	char *out = text, *end = text + strlen(text);

	for (char *at = text; at + 1 < end; at += 2) {
		char two[3] = { at[0], at[1], 0 };

		*out++ = (char)strtoul(two, NULL, 16);
	}
	*out = 0;
	return text;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "ref: %s\n", dlerror());
		exit(2);
	}
	return found;
}

static void load(const char *file)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
	int (*log_init)(char *program, struct quiet options, int facility, char *file);

	if (!library) {
		fprintf(stderr, "ref: %s\n", dlerror());
		exit(2);
	}
	words = dlsym(library, "s_p_hashtbl_create_cnt") ? 7 : 5;
	create = symbol(library, "s_p_hashtbl_create");
	destroy = symbol(library, "s_p_hashtbl_destroy");
	parse_file = symbol(library, "s_p_parse_file");
	parse_line = symbol(library, "s_p_parse_line");
	xstrdup = symbol(library, "slurm_xstrdup");
	get_string = symbol(library, "s_p_get_string");
	get_array = symbol(library, "s_p_get_array");
	slurm_options = symbol(library, "slurm_conf_options");
	hosts_create = symbol(library, "hostlist_create_dims");
	hosts_shift = symbol(library, "hostlist_shift_dims");
	hosts_destroy = symbol(library, "hostlist_destroy");
	log_init = symbol(library, "log_init");
	log_init("ref", (struct quiet){ 0 }, 0, NULL);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t size = 0;

	if (argc != 2)
		return 2;
	load(argv[1]);
	while (getline(&line, &size, stdin) > 0) {
		char *save, *what = strtok_r(line, " \n", &save);
		char *one = strtok_r(NULL, " \n", &save);
		bool ok = false;

		if (what && one && !strcmp(what, "conf"))
			ok = conf(unhex(one));
		else if (what && one && !strcmp(what, "slurm"))
			ok = slurm(unhex(one));
		else if (what && !strcmp(what, "hosts"))
			ok = hosts(one ? unhex(one) : "");
		puts(ok ? "ok" : "refused");
		fflush(stdout);
	}
	free(line);
	return 0;
}
