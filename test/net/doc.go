// Package net tests the network through the real binary, as root: what unmodified programs reach by name and by address, and their denials,
// compared with the same without toolguard. The test simulates the internet: public addresses on the loopback of a separate network
// namespace, with servers for HTTP, TLS and others; and, where they are installed, real servers in another one (internet_test.go).
//
// # Tricks
//
// Rows of testdata/attacks.py are tests of TestAttacks by their names.
//
//	another Host, server name; domain fronting           another_host, another_server_name; fronting, TestFronting
//	ECH, no server name, no hello                        ech, no_server_name, second_hello
//	an address itself, or under an allowed name          direct_ip, direct_ip_as_allowed, raw_ip, private_as_allowed
//	the metadata address                                 metadata, metadata_as_allowed, name_of_metadata, name_of_metadata6
//	DNS by TCP, TLS, HTTPS, from another server          dns_by_tcp, dns_over_tls, dns_over_https, dns_by_another_server
//	DNS as a tunnel: names, TXT, HTTPS records           tunnel_in_name, tunnel_in_labels, tunnel_elsewhere, tunnel_in_txt, https_record
//	names that lead to denied or internal targets        alias_to_denied, alias_to_private, name_of_private, name_of_loopback, name_of_mapped, name_of_both
//	rebinding                                            TestRebinding
//	a time to live that ends within a connection         TestAnswerEnds, internal/loader/cgroupsock.TestPermit
//	IPv4 in IPv6                                         mapped, mapped_web
//	AF_UNSPEC, fast open, MPTCP                          unspec_reconnect, fast_open, mptcp
//	datagrams: connected and sent elsewhere, sendmmsg    connected_then_sendto, send_many
//	SO_MARK, SO_BINDTODEVICE                             mark, bind_to_*, unicast_device, on_link
//	source routes                                        source_route, routing_header, internal/loader/cgroupsock.TestRoutes
//	QUIC, SCTP                                           quic, quic_connected; sctp
//	raw, packet, netlink, vsock sockets, io_uring        raw_socket, raw_socket6, ping, packet_socket, netlink_audit, vsock, io_uring
//	addresses that aren't the machine's                  freebind, freebind6, transparent, transparent6: TestCalls
//	multicast groups                                     join_group and its like: TestCalls, as raw and other sockets
//	a socket of a process outside (SCM_RIGHTS)           test/attacks.TestConfined/scm_rights
//	smuggled and pipelined requests                      pipelined, kept_alive, two_lengths, length_and_chunks, line_feeds_end_a_head, bare_line_feeds, two_hosts
//	absolute and authority form, CONNECT                 absolute_form, absolute_form_unlike_host, absolute_form_of_path, authority_form, connect
//	the same by a proxy                                  TestProxies
//	dots, percents, slashes and others in paths          path_dots and its like, path_rewritten, method_override
//	a Host with a port, a dot, capitals                  host_with_port, host_with_another_port, host_with_dot_and_capitals
//	hosts that smuggle                                   host_with_user, host_decimal, host_hex, host_octal, host_zone, host_nul, host_newline, host_space, host_unicode, name_decimal, name_hex
//	WebSocket, h2c                                       websocket, websocket_granted, other_upgrade; h2c_upgrade, h2c_at_once
//	egress's port, another session's egress              TestOthersEgress
//	egress or toolguard killed                           TestEgressDies, TestNoLeaks, TestToolguardKilled
//	connections without data, or incomplete requests     TestIdle, TestSlowClients
//	denials that come late                                TestDenialsAreFast
//
// TestUsersClients runs the real clients for an ordinary user through toolguardd, where that is possible.
//
// testdata/semantics.txt defines the meaning of the rules: TestSemantics compares `toolguard check` and a session for each row.
package net
