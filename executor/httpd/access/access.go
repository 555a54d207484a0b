// Package access decides who may reach a server and how much of it a client may take: tokens and
// their rights, TLS certificates, host names, and bounds of connections, headers and memory.
//
// It guarantees that a token permits only what the newest usable token file says: Tokens and
// Certificates are read again while they are in use, a file that is not usable changes nothing, and
// nothing that is logged or returned has a secret in it. Comparing tokens takes the same time whether
// one matches or not.
//
// It knows no paths. Which right a request needs, which requests need no client certificate, and to
// answer with the problem that Grant.May returns, is left to its callers.
package access
