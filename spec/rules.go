package spec

import "time"

// Rule is a condition of a claim, in CEL. Package rules says what it may read, and
// what is told to whom.
type Rule struct {
	Name              string // a DNS label, unlike that of every other rule
	Require           string // the expression that has to be true
	Message           string // what a buyer is told whom the rule refuses; empty: a text that names the rule
	MessageExpression string // an expression that makes such a text; empty: Message is told
	Enforce           Enforce
}

// Enforce is what a rule does with a claim that does not satisfy it.
type Enforce string

// The ways to enforce a rule.
const (
	EnforceDeny  Enforce = "deny"  // it refuses the claim; the default
	EnforceAudit Enforce = "audit" // it counts the claim, and lets it go on
)

// Variable is an expression that rules share; each may use those before it.
type Variable struct {
	Name       string // an identifier
	Expression string
}

// Users says where that is found which rules read of a user. Either File or Table is
// set.
type Users struct {
	Attributes []Attribute // by name
	File       string      // CSV, NDJSON; Load has resolved a relative path. Empty in a declaration read by FromJSON
	Table      *UsersTable
	Fresh      time.Duration // how old what is known of a user may be; MinFresh to MaxFresh
	Cached     int64         // most users that are kept in memory; 1 to MaxCached
}

// Attribute is something that may be known of a user.
type Attribute struct {
	Name string // an identifier
	Type string // as rules.TypeNames has it
}

// UsersTable is an HBase table with a row for each user, by the user's id.
type UsersTable struct {
	Zookeeper     []string // host:port; that of the sale's own table unless it is said
	ZookeeperRoot string
	Table         string
	Family        string
	Columns       map[string]string // by attribute; one that is not there has the attribute's name
}

// History says where that is found which users bought in other sales. Files, Table or both
// are set.
type History struct {
	// Files are exports of sales, or patterns of their names as filepath.Match has them.
	// Load has resolved relative ones. Empty in a declaration read by FromJSON.
	Files []string
	// Table has a row for each user, and a column for each run of a sale in which the user
	// bought. Destroy appends to it.
	Table *HistoryTable
}

// HistoryTable is an HBase table of what users bought.
type HistoryTable struct {
	Zookeeper     []string // host:port; that of the sale's own table unless it is said
	ZookeeperRoot string
	Table         string
	Family        string
}

// Queue says who gets the last units where more is asked for than there is.
type Queue struct {
	Order    Order
	Priority string // with OrderPriority: an expression in CEL, an int or double, the highest first
	Depth    int64  // most claims that wait for one shard; the others are told overloaded. 1 to MaxDepth
}

// Order is the order in which claims that wait are decided.
type Order string

// The orders of a queue.
const (
	OrderArrival  Order = "arrival"  // the default
	OrderPriority Order = "priority" // by the priority, those of one priority by arrival
)

// Limits of what rules stand on.
const (
	MinFresh  = time.Second
	MaxFresh  = time.Hour
	MaxCached = 10_000_000
	MaxDepth  = 1_000_000
)

// What a document has where it says nothing.
const (
	DefaultFresh  = 30 * time.Second
	DefaultCached = 100_000
	DefaultDepth  = 10_000
)
