// Package deb tests the Debian package in a virtual machine: installed, used, upgraded and removed, as an administrator does.
package deb
