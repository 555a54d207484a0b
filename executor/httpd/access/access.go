// Package access controls access to a server and limits its use of resources: tokens and their
// rights, TLS certificates, host names, and limits of connections, headers and memory.
//
// A token permits only what the newest usable token file grants. Tokens and Certificates are
// reloaded while they are in use, and an unusable file changes nothing. Log entries and errors
// contain no secret. Comparing tokens takes constant time.
//
// The package knows no paths. Callers choose the right that a request needs and the requests that
// need no client certificate, and write the problem that Grant.May returns.
package access
