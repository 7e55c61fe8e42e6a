// Tries: to have git run something later that the session wrote, in the workspace (argument 1), all of which may be written: makes a
// hook in repo/.git/hooks, and by renaming a folder above it: moves .git away, edits, and moves it back; moves a prepared tree
// there, or exchanges the two; makes such a folder where there is none, by a symlink, a link, a second repository.
// Must get: EACCES, or EXDEV where the new name would add a capability.
// Event: fs of the entry, by the rules of protect; no_gain of the moved file.
#include "attack.h"

static char *at(const char *name) { return path(args[0], name); }

static void folder(const char *name)
{
	if (mkdir(at(name), 0700) < 0 && errno != EEXIST)
		error("mkdir %s", name);
}

static long made(const char *name) { return open(at(name), O_WRONLY | O_CREAT, 0700); }

static long hook(void) { return made("repo/.git/hooks/pre-commit"); }
static long config(void) { return open(at("repo/.git/config"), O_WRONLY | O_APPEND); }
static long mode(void) { return chmod(at("repo/.git/hooks/sample"), 0755); }

static long config_replaced(void)
{
	int fd = made("config.new");
	if (fd < 0)
		error("config.new");
	return rename(at("config.new"), at("repo/.git/config"));
}

static long by_symlink(void)
{
	if (symlink("repo/.git/hooks", at("way")) < 0)
		error("symlink");
	return made("way/by-symlink");
}

static long by_link(void)
{
	int fd = made("evil");
	if (fd < 0)
		error("evil");
	return link(at("evil"), at("repo/.git/hooks/linked"));
}

// Two steps each: the edited or prepared file has another name meanwhile.
static long moved_away(void)
{
	if (rename(at("repo/.git"), at("repo/git")) < 0)
		return -1;
	int fd = made("repo/git/hooks/while-away");
	return rename(at("repo/git"), at("repo/.git")) < 0 ? -1 : fd;
}

static long above_moved_away(void)
{
	if (rename(at("repo"), at("elsewhere")) < 0)
		return -1;
	int fd = made("elsewhere/.git/hooks/above-away");
	return rename(at("elsewhere"), at("repo")) < 0 ? -1 : fd;
}

static void prepare(const char *name)
{
	folder(name);
	folder(path(name, "hooks"));
	if (made(path(name, "hooks/pre-commit")) < 0)
		error("prepare %s", name);
}

static long prepared(void)
{
	prepare("prepared");
	folder("second");
	return rename(at("prepared"), at("second/.git"));
}

static long exchanged(void)
{
	prepare("other");
	long rc = renameat2(AT_FDCWD, at("other"), AT_FDCWD, at("repo/.git"), RENAME_EXCHANGE);
	return rc < 0 ? rc : renameat2(AT_FDCWD, at("other"), AT_FDCWD, at("repo/.git"), RENAME_EXCHANGE);
}

static long nested(void)
{
	folder("deep");
	folder("deep/.git");
	return mkdir(at("deep/.git/hooks"), 0700);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("hook", hook);
	attempt("config", config);
	attempt("config-replaced", config_replaced);
	attempt("mode", mode);
	attempt("symlink", by_symlink);
	attempt("link", by_link);
	attempt("moved-away", moved_away);
	attempt("above-moved-away", above_moved_away);
	attempt("prepared", prepared);
	attempt("exchanged", exchanged);
	attempt("nested", nested);
}
