package check

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "salectl/backends/ledger/ledgerpb"
)

// payloadLog is the name of the log of a run's payloads; uid is the run that a name
// of such a log names.
func payloadLog(uid string) string { return "00/" + uid + "/units" }

func payloadUID(log string) (uid string, ok bool) {
	rest, ok := strings.CutSuffix(log, "/units")
	uid, found := strings.CutPrefix(rest, "00/")
	return uid, ok && found
}

// payloads judges the names of units: each unit that a plan adds has a name in the
// ledger before the plan is in the sale's log, no two units of the sale have one name, and
// the sale has the units that it declares.
func payloads(e *evidence, bad fault) {
	for _, r := range e.runs {
		names := make(map[int64]string) // of the units that are in the sale
		next, all := int64(1), e.names(r)
		for i, p := range r.planned {
			declared := e.declared(p.GetSpec())
			if (declared == nil) != (len(p.GetUnits()) == 0) {
				bad("%v plans generation %d with a digest of units of %d bytes, and declares %d", p.at, p.GetGeneration(), len(p.GetUnits()), len(declared))
			}
			if declared == nil {
				continue
			}
			stored := e.stored(r, p.GetPlanDigest(), p.at.Seq, bad)
			for ; next < p.GetNextUnit(); next++ {
				name, ok := stored[next]
				if !ok {
					bad("%v adds unit %d, of which the ledger does not say what it is", p.at, next)
				}
				names[next] = name
			}
			for _, change := range p.GetShards() {
				for _, d := range change.GetRestore() {
					for unit := d.GetFirst(); unit < d.GetFirst()+d.GetCount(); unit++ {
						names[unit] = all[unit]
					}
				}
				for _, d := range change.GetDrop() {
					for unit := d.GetFirst(); unit < d.GetFirst()+d.GetCount(); unit++ {
						if !r.kept(unit, i) {
							delete(names, unit)
						}
					}
				}
			}
			var has []string
			for _, name := range names {
				has = append(has, name)
			}
			slices.Sort(has)
			slices.Sort(declared)
			if twice := slices.Compact(slices.Clone(has)); len(twice) != len(has) {
				bad("after generation %d two units of run %s have one name: %q", p.GetGeneration(), r.uid, has)
			}
			for _, name := range declared {
				if _, found := slices.BinarySearch(has, name); !found {
					bad("%v declares unit %q, which run %s does not have", p.at, name, r.uid)
				}
			}
		}
	}
}

// names are those of all units that a run ever had, nil where they are numbers.
func (e *evidence) names(r *run) (names map[int64]string) {
	for _, p := range r.planned {
		if len(p.GetUnits()) == 0 {
			return nil
		}
		if names == nil {
			names = make(map[int64]string)
		}
		maps.Copy(names, e.stored(r, p.GetPlanDigest(), p.at.Seq, func(string, ...any) {}))
	}
	return names
}

// kept reports whether a unit is in the sale although a generation, by its index, was to take it
// out: its shard did not have it available, or has not taken the generation yet.
func (r *run) kept(unit int64, generation int) bool {
	change := r.planned[generation]
	for i, l := range r.shards {
		if !among(change.GetShards()[i].GetDrop(), unit) {
			continue
		}
		for _, s := range l.slots {
			for _, op := range s.commit.GetOps() {
				if op.GetGeneration().GetNumber() == change.GetGeneration() {
					return !slices.Contains(s.dropped, unit)
				}
			}
		}
	}
	return true
}

func among(ranges []*pb.Range, unit int64) bool {
	return slices.ContainsFunc(ranges, func(r *pb.Range) bool { return unit >= r.GetFirst() && unit < r.GetFirst()+r.GetCount() })
}

// stored returns what the log of units had for those of a plan by a time.
func (e *evidence) stored(r *run, plan []byte, before uint64, bad fault) map[int64]string {
	names := make(map[int64]string)
	l := e.payloadLogs[payloadLog(r.uid)]
	if l == nil {
		return names
	}
	for _, s := range l.slots {
		for _, op := range s.commit.GetOps() {
			payload := op.GetPayload()
			if payload == nil {
				bad("%v has an op that is no payload", s)
				continue
			}
			if s.Seq > before || string(payload.GetPlan()) != string(plan) {
				continue
			}
			columns, ok := unpack(e.opened(l.name, payload))
			if !ok || int64(len(columns)) != payload.GetCount() {
				bad("%v says of %d units what cannot be read, or of %d", s, payload.GetCount(), len(columns))
				continue
			}
			for i, name := range columns {
				unit := payload.GetFirst() + int64(i)
				if was, again := names[unit]; again && was != name {
					bad("%v says that unit %d is %q, which was %q by the same plan", s, unit, name, was)
				}
				names[unit] = name
			}
		}
	}
	return names
}

// unpack reads packed units, each as its fields with commas between them: a version, their number,
// and of each the number of its attributes, its name and these, with the length before each.
func unpack(b []byte) (names []string, ok bool) {
	if len(b) == 0 || b[0] != 1 {
		return nil, false
	}
	b = b[1:]
	number := func() (n int) {
		v, size := binary.Uvarint(b)
		if size <= 0 || v > uint64(len(b)) {
			b = nil
			return -1
		}
		b = b[size:]
		return int(v)
	}
	for n := number(); n > 0; n-- {
		attributes := number()
		var fields []string
		for ; attributes >= 0; attributes-- {
			size := number()
			if size < 0 || size > len(b) {
				return nil, false
			}
			fields = append(fields, string(b[:size]))
			b = b[size:]
		}
		if fields == nil {
			return nil, false
		}
		names = append(names, strings.Join(fields, ","))
	}
	return names, len(b) == 0
}

// declaredNames are the units that a declaration names in ranges such as A1-A4; nil: it names
// none.
func declaredNames(spec []byte) (names []string) {
	var declaration struct {
		Units *struct{ Range []string }
	}
	if json.Unmarshal(spec, &declaration) != nil || declaration.Units == nil {
		return nil
	}
	for _, text := range declaration.Units.Range {
		first, last, _ := strings.Cut(text, "-")
		row := strings.TrimRight(first, "0123456789")
		var from, to int
		fmt.Sscan(first[len(row):], &from)
		fmt.Sscan(last[len(row):], &to)
		for ; from <= to; from++ {
			names = append(names, fmt.Sprint(row, from))
		}
	}
	return names
}
