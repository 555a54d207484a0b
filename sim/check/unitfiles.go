package check

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	pb "salectl/backends/ledger/ledgerpb"
)

// UnitFiles are the files that declare the units of a sale, a code and a pin each.
type UnitFiles struct {
	Lines  map[int64][]string // by the stock of the sale's file: CSV, without the header
	Secret []byte             // that the key of the units is made of; nil: units are public
	Mark   string             // part of each line, and of nothing else
}

// fileColumns are the columns of the files.
var fileColumns = []string{"code", "pin"}

// declared are the units that a declaration names, in ranges or by the file of its stock; nil:
// units are numbers.
func (e *evidence) declared(spec []byte) []string {
	var declaration struct {
		Stock int64
		Units *struct{ File bool }
	}
	if f := e.h.UnitFiles; f != nil && json.Unmarshal(spec, &declaration) == nil && declaration.Units != nil && declaration.Units.File {
		return slices.Clone(f.Lines[declaration.Stock])
	}
	return declaredNames(spec)
}

// secret reports whether nobody may know the units.
func (e *evidence) secret() bool { return e.h.UnitFiles != nil && e.h.UnitFiles.Secret != nil }

// opened returns the units of a payload as packed, decrypted if they are secret.
func (e *evidence) opened(log string, p *pb.Payload) []byte {
	if !e.secret() {
		return p.GetUnits()
	}
	key, _ := hkdf.Key(sha256.New, e.h.UnitFiles.Secret, nil, "salectl units v1", sha256.Size)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil
	}
	aead, err := cipher.NewGCM(block)
	if size := aead.NonceSize(); err == nil && len(p.GetUnits()) >= size {
		place := fmt.Appendf(nil, "%s/%x/%d/%d", log, p.GetPlan(), p.GetFirst(), p.GetCount())
		plain, _ := aead.Open(nil, p.GetUnits()[:size], p.GetUnits()[size:], place)
		return plain
	}
	return nil
}

// payload is the payload of a unit as exports and events have it.
func (e *evidence) payload(unit string) map[string]string {
	if e.h.UnitFiles == nil {
		return map[string]string{"unit": unit}
	}
	all := make(map[string]string)
	for i, field := range strings.Split(unit, ",") {
		all[fileColumns[min(i, len(fileColumns)-1)]] = field
	}
	return all
}

// secrets judges that secret units are in nothing that others may read than their buyers and who
// has the key.
func secrets(e *evidence, bad fault) {
	if !e.secret() {
		return
	}
	keep := func(what string, text []byte) {
		if bytes.Contains(text, []byte(e.h.UnitFiles.Mark)) {
			bad("%s has secret units: %.200q", what, text)
		}
	}
	for name, entries := range e.h.Logs {
		for _, x := range entries {
			keep("log "+name, x.Bytes)
			keep("the head of log "+name, x.Head)
		}
	}
	for _, x := range e.h.Plans {
		keep("a plan", x.JSON)
	}
	for _, x := range e.h.Feeds {
		for _, b := range x.Batches {
			for _, line := range b.Lines {
				keep("an event", line)
			}
		}
	}
	for _, x := range e.h.Audits {
		keep("an audit", append(x.Found, x.Err...))
	}
	for _, x := range e.h.LiveExports {
		if keep("the error of an export", []byte(x.Err)); x.Redacted {
			keep("a redacted export", x.Bytes)
		}
	}
	for _, x := range e.h.Events {
		keep("an error", []byte(x.Err))
		keep("an answer", []byte(fmt.Sprint(x.Answer)))
	}
}

// payloads judges the payloads of an event: those of its units, if the consumer receives any and
// everybody may know them. Once the run is sealed, they may be missing.
func (f *following) payloads(want event, line feedLine, by uint64) {
	got := line.Data.Payloads
	if len(got) == 0 && f.run.sealedAt != nil && f.run.sealedAt.Seq < by {
		return
	}
	var all []map[string]string
	if f.Payloads && f.names != nil && !f.e.secret() && strings.HasPrefix(want.kind, "claim.") {
		for _, unit := range want.units {
			all = append(all, f.e.payload(f.names[unit]))
		}
	}
	if len(got)+len(all) > 0 && !reflect.DeepEqual(got, all) {
		f.bad("%v: %s %s of units %d has the payloads %v, and they are %v", f, line.Type, line.ID, want.units, got, all)
	}
}
