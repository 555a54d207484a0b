package draw

// Status is how far the draw of a sale has come, for people who look on. What has not
// happened yet is left out.
type Status struct {
	Commitment  Digest  `json:"commitment"` // published before the first entry
	Beacon      *Beacon `json:"beacon,omitempty"`
	Substitutes int64   `json:"substitutes"`
	Winners     int64   `json:"winners"` // the stock
	Entries     int64   `json:"entries"` // so far, or at the close
	Root        *Digest `json:"root,omitempty"`
	Revealed    bool    `json:"revealed"`
	Link        *Digest `json:"link,omitempty"`
	Ranks       int64   `json:"ranks,omitempty"` // that are published
	Complete    bool    `json:"complete"`        // all ranks are
	Lapsed      int64   `json:"lapsed"`          // awards that have come to nothing: so many substitutes follow
}
