// Tries: to be root. It's the set-user-ID program that setuid.c executes.
// Must get: the rights of the user that started it.
// Event: none of its own.
#include "attack.h"

int main(void)
{
	errno = EPERM;
	result("became-root", geteuid() == 0 ? 0 : -1);
}
