// Package spec is what a user writes: the sale document, its defaults, and its
// validation. It also holds what follows from a declaration by arithmetic alone
// (shares.go, packets.go) and the one place where keys and row keys are built
// (names.go).
//
// A document that Load accepts is a valid Sale; one that it refuses comes with
// all that is wrong with it, each Problem with its place and a remedy.
//
// It reads files and nothing else; it knows no backend.
package spec

import "time"

// Sale is one valid declaration with its defaults filled in. Stock and
// LockCount have no default: they decide what is sold and how fast, so they
// are always written down.
type Sale struct {
	Name         string        // a DNS label
	Run          int64         // from 1, the default; the next number starts a destroyed sale's name again
	Protect      bool          // it is neither destroyed nor closed
	Stock        int64         // from 1
	LockCount    int           // 1 to MaxLockCount, at most Stock
	PerUserLimit int64         // units a user may have; from 1, the default
	Partial      bool          // with EngineLedger: a claim for more than there is gets what there is
	Phase        Phase         // "": the one that it is in; a new run is then open
	OpensAt      time.Time     // UTC; zero: open as soon as applied
	ClosesAt     time.Time     // UTC, after OpensAt; zero: until closed by hand
	LockTTL      time.Duration // MinLockTTL to MaxLockTTL in whole milliseconds
	Payment      *Payment      // with EngineLedger; nil: a claim is sold at once

	// Who may claim, with EngineLedger.
	Rules     []Rule     // in the order in which they refuse
	Variables []Variable // in the order in which they may use each other
	Users     *Users     // nil: nothing is known of users but their ids
	History   *History   // nil: rules may not ask for it
	Queue     *Queue     // nil: by arrival, DefaultDepth deep
	Draw      *Draw      // with OrderDraw, and only then

	// How units are given out. With EngineLedger, Ack is AckLedger, Backlog is
	// 0 and RedPacket is nil. With EngineRedis, Units is nil.
	Engine    Engine
	Ack       Ack
	Backlog   int64      // most claims that Redis has granted and the ledger lacks, over all shards; 1 to MaxBacklog; see Allotment
	RedPacket *RedPacket // nil: a unit is no packet of money
	Units     *Units     // nil: a unit is a number, or a red packet

	// Where the sale lives. With EngineLedger: either Embedded, or Redis and
	// HBase. With EngineRedis: Redis, and one of Embedded and HBase. Ask Ledger,
	// Locks and ListNodes: only drivers need the kind.
	Embedded *Embedded
	Redis    *Redis
	HBase    *HBase
	// Homes says it instead where ledger and locks are of kinds that no document
	// can name; Redis then names the nodes of the lists alone.
	Homes *Homes

	// File names where the document stands, as file:line. It is no part of
	// the declaration.
	File string
	// Labels and Annotations are for people and pipelines, nil where there are none. They
	// change nothing of what is sold and are no part of the declaration either: the
	// ledger has none of them, and no plan changes one.
	Labels, Annotations map[string]string

	// expressions are the places of those in CEL, by path, for InExpression. Nor are
	// they a part of the declaration.
	expressions map[string]*expression
}

// Embedded keeps a sale in SQLite files in one folder, with no server.
type Embedded struct {
	// Dir is the folder. Load has resolved a relative path against the
	// document's folder. It is empty in a declaration read by FromJSON.
	Dir string
}

// Redis names the nodes of the locks and, with EngineRedis, of the lists.
type Redis struct {
	Nodes       []string // host:port, lower case, none twice; an odd number with EngineLedger
	UsernameEnv string   // names of environment variables, never the secrets
	PasswordEnv string
	TLS         bool
}

// HBase names the table of the logs.
type HBase struct {
	Zookeeper     []string // host:port, lower case, none twice
	ZookeeperRoot string   // HBase's parent znode
	Table         string   // with its namespace, unless that is the default one
}

// Limits of a declaration.
const (
	MaxLockCount = 1024
	MaxFileSize  = 1 << 20

	// MaxServers is how many servers one list may name. Each lock node is asked
	// for every lease, and who names more has named something else.
	MaxServers = 99

	MaxBacklog    = 10_000_000
	MaxRedisStock = 10_000_000 // with EngineRedis: its units stand in Redis's memory

	// MaxTotal is the most that a red packet may hold, in minor units. Ninety
	// such totals may be added up in an int64.
	MaxTotal = 100_000_000_000_000_000

	MinLockTTL = 2 * time.Second
	MaxLockTTL = 10 * time.Second

	MinHold  = time.Second // of a payment's hold, and of its extension
	MaxHold  = 24 * time.Hour
	MaxGrace = time.Hour

	MinCheckInterval = 100 * time.Millisecond
	MaxCheckInterval = 10 * time.Minute
	MinCheckTimeout  = 100 * time.Millisecond
	MaxCheckTimeout  = 30 * time.Second
	MaxCheckURL      = 2048 // bytes
)

// What a document has where it says nothing.
const (
	DefaultRun           = 1
	DefaultPerUserLimit  = 1
	DefaultLockTTL       = 3 * time.Second
	DefaultBacklog       = 100_000
	DefaultEmbeddedDir   = ".salectl"
	DefaultZookeeperRoot = "/hbase"
	DefaultCheckInterval = 5 * time.Second
	DefaultCheckTimeout  = 3 * time.Second
)

// What every document says of itself.
const (
	APIVersion = "salectl/v1"
	Kind       = "Sale"
)
