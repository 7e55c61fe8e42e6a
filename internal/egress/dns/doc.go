// Package dns reads and writes DNS messages, and asks name servers. It decides nothing: package egress says what may be asked.
//
// # Threats
//
// Queries come from hostile programs, and answers from any sender of a datagram. A query must ask exactly one question. An answer
// counts only from the asked server's address and port, with the query's random number and its random capitals, or by TCP; what is
// forged or late is passed over. Aliases are followed to a bound, and other records than addresses of the asked family don't count. Both
// parsers are fuzzed.
package dns
