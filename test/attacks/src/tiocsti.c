// Tries: to type a command into the terminal that it shares with the shell that started it (TIOCSTI on standard
// input), and to paste it (TIOCLINUX, which only a console has).
// Must get: EPERM or EACCES.
// Event: syscall ioctl, reason syscall_denied.
#include "attack.h"
#include <linux/tiocl.h>

static long type_it(void)
{
	char c = 'x';
	return ioctl(0, TIOCSTI, &c);
}

// The kernel looks at the low 32 bits of the request only (CVE-2019-10063, CVE-2023-28100 in other projects' filters).
static long high_bits(void)
{
	char c = 'x';
	return syscall(SYS_ioctl, 0, TIOCSTI | 1UL << 32, &c);
}

static long paste(void)
{
	char code = TIOCL_PASTESEL;
	return ioctl(0, TIOCLINUX, &code);
}

int main(int argc, char **argv)
{
	attempt("tiocsti", type_it);
	attempt("tiocsti-high-bits", high_bits);
	attempt("tioclinux", paste);
}
