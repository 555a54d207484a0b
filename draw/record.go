package draw

// Published are the values of a draw that its operator has published. Steps that have not happened
// yet are omitted.
type Published struct {
	Commitment Digest  `json:"commitment"` // before the first entry
	Beacon     *Beacon `json:"beacon,omitempty"`
	Root       *Digest `json:"root,omitempty"`  // at the close: of the trees of all shards' entries
	Link       *Digest `json:"link,omitempty"`  // once revealed: the link before the commitment
	Ranks      int64   `json:"ranks,omitempty"` // once revealed: number of ranks published so far

	Substitutes int64 `json:"substitutes"` // ranks beyond the stock
	Winners     int64 `json:"winners"`     // the stock
	Lapsed      int64 `json:"lapsed"`      // awards that have lapsed: as many substitutes follow
}

// Record is the part of an export's header that describes a draw. Steps that have not
// happened yet are omitted.
type Record struct {
	Published
	// CommittedCloses is the closesAt that the commitment covers, beside the substitutes and the
	// beacon; "": it is not revealed yet.
	CommittedCloses string `json:"committedClosesAt,omitempty"`
	Opens           string `json:"opensAt,omitempty"` // RFC 3339, as all times
	Closes          string `json:"closesAt"`

	// Shards are, from the close on, the trees of the shards' entries, in their order.
	Shards []Tree `json:"shards,omitempty"`

	// Stock is the stock when the draw was revealed, 0 if it is not. Reach is the last rank that
	// might be awarded: the stock, plus one for each lapsed award, until the sale was closed for good.
	Stock int64 `json:"stock,omitempty"`
	Reach int64 `json:"reach"`

	// Ended means that nothing more is awarded. Until then an entry may wait for its unit
	// although another of a higher rank has its own.
	Ended bool `json:"ended,omitempty"`
}

// Beacon is a public source of randomness, with the round that a sale has named before its
// first entry.
type Beacon struct {
	Name     string `json:"name"`
	Round    string `json:"round"`
	Fallback string `json:"fallback"`        // none, or secret: without a value the order follows from the secret alone
	Value    string `json:"value,omitempty"` // of that round, in hex; "": the fallback was taken
}

// Line is the line of an entry in an export. A published list omits user and key.
type Line struct {
	Claim     string `json:"claim"`
	User      string `json:"user,omitempty"`
	Key       string `json:"key,omitempty"`
	KeyBase64 []byte `json:"keyBase64,omitempty"`
	State     string `json:"state"` // entered: no unit was awarded
	At        string `json:"at"`
	Label     Digest `json:"label"`
	Rank      int64  `json:"rank,omitempty"` // 0: beyond the published ranks
}

// StateEntered is the state of an entry that was not awarded a unit.
const StateEntered = "entered"

// States of an entry that was awarded a unit. In the last three the award has lapsed.
const (
	stateSold      = "sold"
	stateHeld      = "held"
	stateExpired   = "expired"
	stateCancelled = "cancelled"
	stateRefunded  = "refunded"
)

// Status is the progress of a sale's draw, for observers.
type Status struct {
	Published
	Entries  int64 `json:"entries"` // so far, or at the close
	Revealed bool  `json:"revealed"`
	Complete bool  `json:"complete"` // all ranks are published
}
