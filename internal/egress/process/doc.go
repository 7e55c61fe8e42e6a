// Package process is egress in a process of its own, which toolguard starts beside a session whose network is to be decided by name: what it's
// instructed and reports there (package message), and how it takes from itself all that it doesn't need. It reads what hostile programs and
// servers say, so before the first of that it's neither root nor has it files, other programs, or sockets but the internet's.
package process
