package ledger

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"salectl/spec"
)

// An export is NDJSON: a header, a line a claim, then a line a commit, both by
// shard and slot. Nothing in it depends on when or where it was written, so two
// exports of one sealed sale are the same bytes.

// ExportVersion is the version of the format, in the header's field export.
const ExportVersion = 1

// ExportHeader is the first line.
type ExportHeader struct {
	Export int          `json:"export"`
	Sale   string       `json:"sale"`
	UID    string       `json:"uid"`
	Roots  []Hash       `json:"roots"` // of each shard: the hash of its last slot
	Counts ExportCounts `json:"counts"`
}

// ExportCounts are the sums over all shards.
type ExportCounts struct {
	Shards    int    `json:"shards"`
	Slots     uint64 `json:"slots"`
	Claims    int64  `json:"claims"`
	Sold      int64  `json:"sold"` // units, as all below
	Held      int64  `json:"held"`
	Available int64  `json:"available"`
	InFlight  int64  `json:"inFlight"`
}

// ExportClaim is the line of a claim. A key that is no UTF-8 text is written as
// base64 in keyBase64 instead.
type ExportClaim struct {
	Claim     string  `json:"claim"` // <shard>-<slot>-<index>
	Sale      string  `json:"sale"`
	User      string  `json:"user"`
	Units     []int64 `json:"units"`
	State     string  `json:"state"` // sold, held, cancelled, expired
	At        string  `json:"at"`    // RFC 3339, UTC
	Key       string  `json:"key,omitempty"`
	KeyBase64 []byte  `json:"keyBase64,omitempty"`
}

// ExportCommit is the line of a commit: the bytes of a slot.
type ExportCommit struct {
	Shard  int    `json:"shard"`
	Slot   uint64 `json:"slot"`
	Commit string `json:"commit"` // base64
}

// Header returns the first line of an export of the shards as they are folded.
func Header(sale string, uid string, shards []*State) ExportHeader {
	h := ExportHeader{Export: ExportVersion, Sale: sale, UID: uid}
	for _, s := range shards {
		h.Roots = append(h.Roots, s.Root())
		h.Counts.Slots += s.Next()
		h.Counts.Claims += int64(s.Claims())
		h.Counts.Sold += s.Sold
		h.Counts.Held += s.Held
		h.Counts.Available += s.Available
		h.Counts.InFlight += s.InFlight
	}
	h.Counts.Shards = len(shards)
	return h
}

// Export writes an export of the shards as they are folded. The commits are
// read once more and must hash to the same roots.
func Export(ctx context.Context, logs Logs, sale, uid string, shards []*State, to io.Writer) error {
	w := bufio.NewWriterSize(to, 1<<16)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(Header(sale, uid, shards)); err != nil {
		return err
	}
	for shard, s := range shards {
		for i := range s.Claims() {
			if err := lines.Encode(exportClaim(sale, shard, s.Claim(i))); err != nil {
				return err
			}
		}
	}
	for shard, s := range shards {
		if err := exportCommits(ctx, logs, shard, s, lines); err != nil {
			return err
		}
	}
	return w.Flush()
}

func exportClaim(sale string, shard int, c Claim) ExportClaim {
	line := ExportClaim{
		Claim: fmt.Sprintf("%d-%d-%d", shard, c.Slot, c.Index), Sale: sale, User: c.User, Units: c.Units,
		State: c.State.String(), At: time.UnixMicro(c.TimeUs).UTC().Format(time.RFC3339Nano),
	}
	if utf8.ValidString(c.Key) {
		line.Key = c.Key
	} else {
		line.KeyBase64 = []byte(c.Key)
	}
	return line
}

func exportCommits(ctx context.Context, logs Logs, shard int, s *State, lines *json.Encoder) error {
	copied := newChain(s.log)
	for copied.next < s.next {
		_, entries, err := logs.Read(ctx, s.log, copied.next, readAtOnce)
		if err != nil {
			return fmt.Errorf("exporting shard %d: %w", shard, err)
		}
		if len(entries) == 0 {
			return fmt.Errorf("exporting shard %d: %w at slot %d", shard, ErrGone, copied.next)
		}
		for _, entry := range entries[:min(uint64(len(entries)), s.next-copied.next)] {
			commit, err := copied.decode(entry)
			if err != nil {
				return err
			}
			line := ExportCommit{Shard: shard, Slot: copied.next, Commit: base64.StdEncoding.EncodeToString(entry)}
			if err := lines.Encode(line); err != nil {
				return err
			}
			copied.advance(commit, sum(entry))
		}
	}
	if copied.hash != s.hash {
		return copied.corrupt("the log is not what was folded from it before")
	}
	return nil
}

// ReadExport reads an export back: it folds every commit into a shard and checks
// the header and every claim's line against what the fold says.
func ReadExport(from io.Reader) (ExportHeader, []*State, error) {
	var header ExportHeader
	lines := json.NewDecoder(from)
	if err := lines.Decode(&header); err != nil {
		return header, nil, fmt.Errorf("an export begins with a header: %w", err)
	}
	if header.Export != ExportVersion {
		return header, nil, fmt.Errorf("an export of version %d cannot be read, only version %d", header.Export, ExportVersion)
	}
	shards := make([]*State, len(header.Roots))
	for i := range shards {
		shards[i] = NewState(spec.ShardLog(header.UID, i, len(shards)))
	}
	var claims []ExportClaim
	for lines.More() {
		var line struct {
			ExportClaim
			Shard  int    `json:"shard"`
			Slot   uint64 `json:"slot"`
			Commit []byte `json:"commit"`
		}
		if err := lines.Decode(&line); err != nil {
			return header, nil, fmt.Errorf("a line of the export: %w", err)
		}
		if line.Commit == nil {
			claims = append(claims, line.ExportClaim)
			continue
		}
		if line.Shard < 0 || line.Shard >= len(shards) || line.Slot != shards[line.Shard].Next() {
			return header, nil, fmt.Errorf("the export has slot %d of shard %d out of order", line.Slot, line.Shard)
		}
		if err := shards[line.Shard].Fold(line.Commit); err != nil {
			return header, nil, err
		}
	}
	return header, shards, checkExport(header, shards, claims)
}

func checkExport(header ExportHeader, shards []*State, claims []ExportClaim) error {
	if want := Header(header.Sale, header.UID, shards); !slices.Equal(want.Roots, header.Roots) || want.Counts != header.Counts {
		return fmt.Errorf("the export's commits do not add up to its header: %w", ErrCorrupt)
	}
	for shard, s := range shards {
		for i := range s.Claims() {
			want := exportClaim(header.Sale, shard, s.Claim(i))
			if len(claims) == 0 || !reflect.DeepEqual(want, claims[0]) {
				return fmt.Errorf("claim %s has another line in the export than in its commit: %w", want.Claim, ErrCorrupt)
			}
			claims = claims[1:]
		}
	}
	if len(claims) > 0 {
		return fmt.Errorf("the export has a line for claim %s and no commit: %w", claims[0].Claim, ErrCorrupt)
	}
	return nil
}
