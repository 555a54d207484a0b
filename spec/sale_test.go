package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every field of a declaration comes back from what is stored, for some good sale.
func TestEveryFieldIsStored(t *testing.T) {
	notStored := []string{
		"File", "Labels", "Annotations", "Env", "Embedded.Dir", "Users.File", "Units.File", "Units.KeyFile", "Draw.KeyFile",
		"Homes",                           // no good sale has them: no document can name them
		"Units.Public", "Units.RedPacket", // of documents only
	}
	stored := map[string]bool{}
	for _, sale := range goodSales(t) {
		kept, err := FromJSON(mustJSON(t, sale))
		if err != nil {
			t.Fatal(err)
		}
		eachField(reflect.ValueOf(kept), "", func(path string, v reflect.Value) {
			stored[path] = stored[path] || !v.IsZero()
		})
	}
	if len(stored) < 60 {
		t.Errorf("there are %d fields only", len(stored))
	}
	for path, is := range stored {
		if !is && !slices.ContainsFunc(notStored, func(not string) bool { return path == not || strings.HasPrefix(path, not+".") }) {
			t.Errorf("no good sale has %s when it is read back", path)
		}
	}
}

// eachField calls f for every exported field below v, with what it is, also where a
// pointer on the way is nil.
func eachField(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		f(path, v)
	case v.Kind() == reflect.Pointer && v.IsNil():
		eachField(reflect.Zero(v.Type().Elem()), path, f)
	case v.Kind() == reflect.Pointer:
		eachField(v.Elem(), path, f)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		eachField(reflect.Zero(v.Type().Elem()), path, f)
		for i := range v.Len() {
			eachField(v.Index(i), path, f)
		}
	case v.Kind() == reflect.Struct:
		for _, field := range reflect.VisibleFields(v.Type()) {
			if field.IsExported() {
				eachField(v.FieldByIndex(field.Index), strings.TrimPrefix(path+"."+field.Name, "."), f)
			}
		}
	default:
		f(path, v)
	}
}

// A duration is text in a document and a number of milliseconds in JSON, of at most what a
// time.Duration can hold.
func TestDuration(t *testing.T) {
	text, err := json.Marshal(Duration(90 * time.Second))
	if err != nil || string(text) != "90000" {
		t.Errorf("JSON: %s, %v", text, err)
	}
	var d Duration
	for text, want := range map[string]error{
		"1500":                 nil,
		"9223372036854775807":  errors.New("9223372036854775807 milliseconds are too long"),
		"-9223372036854775807": errors.New("-9223372036854775807 milliseconds are too long"),
		"9223372036854775808":  errors.New("9223372036854775808 is no number of milliseconds"),
		`"1s"`:                 errors.New(`"1s" is no number of milliseconds`),
	} {
		if err := json.Unmarshal([]byte(text), &d); fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if d != Duration(1500*time.Millisecond) {
		t.Errorf("1500 ms are %v", d)
	}
}

// Every duration of a stored declaration is a Duration.
func TestEveryTermIsADuration(t *testing.T) {
	found := 0
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			field := v.Field(i)
			if !field.CanSet() {
				continue
			}
			if field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct {
				field.Set(reflect.New(field.Type().Elem()))
				walk(field.Elem())
				continue
			}
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if !strings.HasSuffix(key, "Ms") {
				continue
			}
			if found++; field.Type() != reflect.TypeFor[Duration]() {
				t.Errorf("%s is a %v", key, field.Type())
			}
		}
	}
	walk(reflect.ValueOf(new(Sale)).Elem())
	if found < 7 {
		t.Errorf("%d durations were found", found)
	}
}

// Constants for other packages are the bounds and defaults of their options.
func TestConstantsOfOptions(t *testing.T) {
	options := map[string]*option{}
	root().walk("", func(path string, o *option) { options[join(path, o.key)] = o })
	for path, want := range map[string]any{
		"spec.stock max": int64(MaxStock), "spec.lockCount max": int64(MaxLockCount),
		"spec.redis.nodes max": int64(MaxServers), "spec.hbase.zookeeper max": int64(MaxServers),
		"spec.payment.holdFor min": MinHold, "spec.users.fresh min": MinFresh, "spec.backlog max": int64(MaxBacklog),
		"spec.backlog": int64(DefaultBacklog), "spec.payment.unpaidPerUser": int64(DefaultUnpaid), "spec.queue.depth": int64(DefaultDepth),
		"spec.users.fresh": DefaultFresh, "spec.users.cached": int64(DefaultCached), "spec.lock.ttl": DefaultLockTTL, "spec.lock.ttl max": time.Duration(MaxLockTTL),
		"spec.hbase.zookeeperRoot": DefaultZookeeperRoot, "spec.draw.substitutes max": int64(MaxRanks),
	} {
		path, bound, _ := strings.Cut(path, " ")
		o := options[path]
		var got any
		switch {
		case bound == "":
			got = o.initial().Interface()
		case o.isDuration() && bound == "max":
			got = time.Duration(o.most)
		case o.isDuration():
			got = time.Duration(o.least)
		default:
			got = o.most
		}
		if got != want {
			t.Errorf("%s %s: %v, the constant is %v", path, bound, got, want)
		}
	}
}
