package spec

import (
	"reflect"
	"strings"
	"sync"
)

// keyDef is one key of a mapping of the document.
type keyDef struct {
	name     string
	required bool
}

// keysOf returns the keys of the mapping t, in order.
func keysOf(t reflect.Type) []keyDef {
	var keys []keyDef
	for _, f := range reflect.VisibleFields(t) {
		if name, option, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "-" {
			keys = append(keys, keyDef{name, option != "omitempty"})
		}
	}
	return keys
}

// homes maps every key of the document to the paths of its mappings; the outermost path is "".
var homes = sync.OnceValue(func() map[string][]string {
	found := map[string][]string{}
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == "-" {
				continue
			}
			found[name] = append(found[name], path)
			below := f.Type
			if below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
				below = below.Elem()
			}
			if below.Kind() == reflect.Struct {
				walk(below, join(path, name))
			}
		}
	}
	walk(reflect.TypeFor[saleDocument](), "")
	return found
})

// join appends a key to the path of its mapping.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
