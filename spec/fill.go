package spec

import (
	"reflect"
	"time"
)

// fill decodes the keys of a mapping into the fields of a struct, and sets the defaults of
// those that are absent. The value of an invalid key is zero. Types check what depends on
// several keys afterwards, with the mapping from object.
func (d *decoder) fill(o object, b *block, into reflect.Value) {
	if o.at != nil {
		d.objects[o.path] = o
	}
	for _, opt := range b.options {
		v, ok := d.value(o, opt.key)
		switch {
		case opt.constant != "" && ok:
			d.constant(v, opt.constant)
		case opt.constant != "":
		case opt.field == nil:
			var below object
			if ok {
				below, _ = d.object(v, opt.inner)
			}
			d.fill(below, opt.inner, into)
		case ok:
			d.decode(v, opt, into.FieldByIndex(opt.field))
		case o.keys[opt.key] == nil:
			into.FieldByIndex(opt.field).Set(opt.initial())
			if opt.form == "folder" && o.at != nil { // relative to the document, as any
				into.FieldByIndex(opt.field).SetString(d.src.resolve(opt.standard))
			}
		}
	}
	if o.at != nil {
		d.related(o, b)
	}
}

// decode decodes the value of a key into its field.
func (d *decoder) decode(v value, opt *option, field reflect.Value) {
	switch {
	case opt.inner != nil && field.Kind() == reflect.Slice:
		for _, o := range d.mappings(v, opt) {
			item := reflect.New(field.Type().Elem()).Elem()
			d.fill(o, opt.inner, item)
			field.Set(reflect.Append(field, item))
		}
	case opt.inner != nil:
		if o, ok := d.object(v, opt.inner); ok {
			field.Set(reflect.New(field.Type().Elem()))
			d.fill(o, opt.inner, field.Elem())
		}
	case opt.form != "":
		if read := forms[opt.form].read; read != nil {
			if x, ok := read(d, v, opt); ok {
				field.Set(reflect.ValueOf(x).Convert(field.Type()))
			}
		}
	case len(opt.words) > 0:
		field.SetString(d.choice(v, opt.words))
	case opt.isDuration():
		field.SetInt(int64(d.term(v, opt.example, time.Duration(opt.least), time.Duration(opt.most))))
	case field.Type() == reflect.TypeFor[time.Time]():
		field.Set(reflect.ValueOf(d.time(v, opt.example)))
	case field.Kind() == reflect.Bool:
		is, _ := d.boolean(v)
		field.SetBool(is)
	default:
		n, _ := d.number(v, opt.least, opt.most)
		field.SetInt(n)
	}
}
