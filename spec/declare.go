package spec

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// declared is what a document says, as far as it could be made out.
type declared struct {
	sale   Sale
	name   string     // empty unless it is a valid one
	nameAt *yaml.Node // where it stands
}

// document reads one document of the file.
func (d *decoder) document(doc document) declared {
	root, err := parse(strings.Join(doc.lines, ""))
	switch {
	case err != nil:
		d.problems = append(d.problems, d.src.syntaxProblem(doc, err))
		return declared{}
	case root == nil, root.ShortTag() == "!!null" && root.Value == "":
		d.problems = append(d.problems, d.src.problem(doc.start, 1, "the document is empty",
			"Write a sale there, or remove the line of ---."))
		return declared{}
	}
	shift(root, doc.first)
	if !d.lint(root) || d.foreign(root) {
		return declared{}
	}
	return d.saleDocument(value{at: root, node: root})
}

// foreign reports a document that is nothing of ours. Its keys would only make
// noise.
func (d *decoder) foreign(root *yaml.Node) bool {
	var version, kind *yaml.Node
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		switch root.Content[i].Value {
		case "apiVersion":
			version = target(root.Content[i+1])
		case "kind":
			kind = root.Content[i+1]
		}
	}
	if version == nil || kind == nil || target(kind).Value == Kind || strings.HasPrefix(version.Value, "salectl/") ||
		version.Kind != yaml.ScalarNode || target(kind).Kind != yaml.ScalarNode {
		return false
	}
	d.refuse(kind, "Name only files with sales, or keep other documents in another folder.",
		"the document is a %s of %s, not a %s of %s", target(kind).Value, version.Value, Kind, APIVersion)
	return true
}

func (d *decoder) saleDocument(root value) declared {
	got := declared{sale: Sale{
		Run: DefaultRun, PerUserLimit: DefaultPerUserLimit, LockTTL: DefaultLockTTL,
		File: fmt.Sprintf("%s:%d", d.src.name, root.node.Line),
	}}
	o, ok := d.object(root, reflect.TypeFor[saleDocument]())
	if !ok {
		return got
	}
	d.constant(o, "apiVersion", APIVersion)
	d.constant(o, "kind", Kind)
	if v, ok := d.value(o, "metadata"); ok {
		d.metadata(v, &got)
	}
	if v, ok := d.value(o, "spec"); ok {
		d.expressions = nil
		d.spec(v, &got.sale)
		got.sale.expressions = d.expressions
	}
	return got
}

func (d *decoder) constant(o object, key, want string) {
	if v, ok := d.value(o, key); ok {
		if text, ok := d.text(v, want); ok && text != want {
			d.refuse(v.at, fmt.Sprintf("Write %s: %s.", key, want), "%s is %q, and should be %s", v.path, text, want)
		}
	}
}

func (d *decoder) metadata(v value, got *declared) {
	o, ok := d.object(v, reflect.TypeFor[metadataPart]())
	if !ok {
		return
	}
	if v, ok := d.value(o, "name"); ok {
		if name, ok := checked(d, v, "movie-tickets", checkName); ok {
			got.sale.Name, got.name, got.nameAt = name, name, v.at
		}
	}
	if v, ok := d.value(o, "run"); ok {
		got.sale.Run, _ = d.number(v, 1, math.MaxInt64)
	}
	if v, ok := d.value(o, "protect"); ok {
		got.sale.Protect, _ = d.boolean(v)
	}
	if v, ok := d.value(o, "labels"); ok {
		got.sale.Labels = d.labels(v)
	}
	if v, ok := d.value(o, "annotations"); ok {
		got.sale.Annotations = d.annotations(v)
	}
}

func (d *decoder) spec(v value, s *Sale) {
	o, ok := d.object(v, reflect.TypeFor[specPart]())
	if !ok {
		return
	}
	stockOK := false
	if v, ok := d.value(o, "stock"); ok {
		s.Stock, stockOK = d.number(v, 1, math.MaxInt64)
	}
	if v, ok := d.value(o, "lockCount"); ok {
		n, ok := d.number(v, 1, MaxLockCount)
		if ok && stockOK && n > s.Stock {
			d.refuse(v.at, fmt.Sprintf("Write at most %d, or raise the stock: a shard needs a unit.", s.Stock),
				"%s is above the stock, which is %d", v.path, s.Stock)
		}
		s.LockCount = int(n)
	}
	if v, ok := d.value(o, "perUserLimit"); ok {
		s.PerUserLimit, _ = d.number(v, 1, math.MaxInt64)
	}
	if v, ok := d.value(o, "partial"); ok {
		s.Partial, _ = d.boolean(v)
	}
	if o.keys["phase"] != nil {
		s.Phase, _ = choice(d, o, "phase", phases...)
	}
	d.times(o, s)
	if v, ok := d.value(o, "payment"); ok {
		s.Payment = d.payment(v)
	}
	if v, ok := d.value(o, "lock"); ok {
		d.lock(v, s)
	}
	engineOK := d.engine(o, s)
	d.stores(o, s, engineOK)
	d.who(o, s)
	d.draw(o, s, engineOK)
}

func (d *decoder) times(o object, s *Sale) {
	s.OpensAt, _ = d.time(o, "opensAt")
	closes, ok := d.time(o, "closesAt")
	if ok && !s.OpensAt.IsZero() && !closes.After(s.OpensAt) {
		d.refuse(o.values["closesAt"], "Let it close after it has opened.",
			"spec.closesAt is not after opensAt, which is on line %d", o.values["opensAt"].Line)
	}
	s.ClosesAt = closes
}

// time takes a moment, in quotes or not: YAML may have a date or text in it.
func (d *decoder) time(o object, key string) (time.Time, bool) {
	const example = "2026-11-11T20:00:00+08:00"
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "a time", fmt.Sprintf("Write a time, such as %s: %s, or leave the key out.", key, example)) {
		return time.Time{}, false
	}
	t, f := readTime(v.node.Value)
	if f != nil {
		d.fault(v, f)
	}
	return t, f == nil
}

func (d *decoder) lock(v value, s *Sale) {
	o, ok := d.object(v, reflect.TypeFor[lockPart]())
	if !ok {
		return
	}
	// A number without its unit is the likeliest mistake, and has a message
	// that fits better than that of text.
	if v, ok := d.value(o, "ttl"); ok && d.scalar(v, "a duration", "Write ttl: 3s, or leave the key out.") {
		ttl, f := readTTL(v.node.Value)
		if f != nil {
			d.fault(v, f)
		}
		s.LockTTL = ttl
	}
}

// checked takes text that check finds nothing wrong with.
func checked(d *decoder, v value, example string, check func(string) *fault) (string, bool) {
	text, ok := d.text(v, example)
	if !ok {
		return "", false
	}
	if f := check(text); f != nil {
		d.fault(v, f)
		return "", false
	}
	return text, true
}

// resolve is a folder that the document names, seen from the working directory.
func (s *source) resolve(dir string) string {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(s.dir, dir)
}
