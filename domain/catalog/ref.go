package catalog

import "strings"

// Ref names one resource.
type Ref struct {
	Kind Kind
	ID   string
}

// String is "upstream openai-main".
func (r Ref) String() string { return string(r.Kind) + " " + r.ID }

// Stream is the event stream of the resource.
func (r Ref) Stream() string { return Streams + string(r.Kind) + "/" + r.ID }

// Streams is the prefix of the streams of the catalogue: one per resource.
const Streams = "catalog/"

// RefOfStream is the resource that a stream "catalog/<kind>/<id>" belongs to: what is left to know of a fact that
// cannot be read.
func RefOfStream(stream string) (ref Ref, ok bool) {
	rest, ok := strings.CutPrefix(stream, Streams)
	if !ok {
		return Ref{}, false
	}
	kind, id, ok := strings.Cut(rest, "/")
	return Ref{Kind(kind), id}, ok && id != "" && Kind(kind).Valid()
}
