package spec

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every field of a declaration comes back from what is stored, for some good sale.
func TestEveryFieldIsStored(t *testing.T) {
	notStored := []string{
		"File", "Labels", "Annotations", "Embedded.Dir", "Users.File", "Units.File", "Units.KeyFile", "Draw.KeyFile",
		"Homes",                                // no good sale has them: no document can name them
		"Rules.At", "Variables.At", "Queue.At", // places in a file
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

// Every duration of a stored declaration is held to what a time.Duration can hold.
func TestEveryTermIsHeldToTheLongest(t *testing.T) {
	found := 0
	var walk func(v reflect.Value, whole *stored)
	walk = func(v reflect.Value, whole *stored) {
		for i := range v.NumField() {
			field := v.Field(i)
			if field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct && field.Type() != reflect.TypeFor[*time.Time]() {
				field.Set(reflect.New(field.Type().Elem()))
				walk(field.Elem(), whole)
				continue
			}
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if !strings.HasSuffix(key, "Ms") {
				continue
			}
			found++
			for _, ms := range []int64{math.MaxInt64, -math.MaxInt64} {
				field.SetInt(ms)
				if err := tooLong(whole.terms()); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s is %d", key, ms)) {
					t.Errorf("%s of %d ms: %v", key, ms, err)
				}
			}
			field.SetInt(0)
		}
	}
	var whole stored
	walk(reflect.ValueOf(&whole).Elem(), &whole)
	if found < 7 {
		t.Errorf("%d durations were found", found)
	}
}
