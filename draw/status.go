package draw

// Status is the progress of a sale's draw, for observers. Steps that have not happened yet
// are omitted.
type Status struct {
	Commitment  Digest  `json:"commitment"` // published before the first entry
	Beacon      *Beacon `json:"beacon,omitempty"`
	Substitutes int64   `json:"substitutes"`
	Winners     int64   `json:"winners"` // the stock
	Entries     int64   `json:"entries"` // so far, or at the close
	Root        *Digest `json:"root,omitempty"`
	Revealed    bool    `json:"revealed"`
	Link        *Digest `json:"link,omitempty"`
	Ranks       int64   `json:"ranks,omitempty"` // published so far
	Complete    bool    `json:"complete"`        // all ranks are published
	Lapsed      int64   `json:"lapsed"`          // awards that have lapsed: as many substitutes follow
}
