// Package mountstest tests a program that makes the mounts of a session: sessions of real processes under policies whose rules take away beneath
// grants. The packages of all such programs run the same tests.
package mountstest
