// Package spec is what a user writes: the sale document, its defaults, and its
// validation. It also holds what follows from a declaration by arithmetic alone
// (shares.go) and the one place where keys and row keys are built (names.go).
//
// It reads files and nothing else; it knows no backend.
package spec

import "time"

// Sale is one valid declaration with its defaults filled in.
type Sale struct {
	Name         string // a DNS label
	Run          int64  // from 1; the next number starts a destroyed sale's name again
	Stock        int64
	LockCount    int       // 1 to MaxLockCount, at most Stock
	PerUserLimit int64     // units a user may have
	OpensAt      time.Time // zero: open as soon as applied
	ClosesAt     time.Time // zero: until closed by hand
	LockTTL      time.Duration

	// Where the sale lives: either Embedded, or Redis and HBase.
	Embedded *Embedded
	Redis    *Redis
	HBase    *HBase

	// File names where the document stands, as file:line. It is no part of
	// the declaration.
	File string
}

// Embedded keeps a sale in SQLite files in one folder, with no server.
type Embedded struct {
	Dir string // relative paths have been resolved against the document's folder
}

// Redis names the lock nodes.
type Redis struct {
	Nodes       []string // host:port, an odd number
	UsernameEnv string   // names of environment variables, never the secrets
	PasswordEnv string
	TLS         bool
}

// HBase names the table of the logs.
type HBase struct {
	Zookeeper []string // host:port
	Table     string
}

// Limits of a declaration.
const (
	MaxLockCount = 1024
	MaxFileSize  = 1 << 20
)
