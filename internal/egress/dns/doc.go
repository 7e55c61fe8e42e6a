// Package dns reads and writes DNS messages, and queries name servers. It decides nothing: package egress decides which names are queried.
//
// # Threats
//
// Queries come from hostile programs, and answers from any sender of a datagram. A query must ask exactly one question. An answer
// counts only from the server's address and port, with the query's random ID and random case, or by TCP; forged and late answers are
// ignored. Aliases are followed up to a limit, and records other than addresses of the queried family are ignored. Both
// parsers are fuzzed.
package dns
