package dialect

// edit replaces a span of a body.
type edit struct {
	at   Span
	text string
}

// SpliceUsage appends body to dst with stream_options.include_usage set to true, and every other byte as it was. A
// body that asks for its usage already is appended as it is. r is what ScanRequest said about this body.
func SpliceUsage(dst, body []byte, r Request) []byte {
	e, ok := usageEdit(body, r)
	if !ok {
		return append(dst, body...)
	}
	return e.apply(dst, body)
}

// SpliceModel appends body to dst with its model replaced, and every other byte as it was. A body without a model is
// appended as it is.
func SpliceModel(dst, body []byte, r Request, model string) []byte {
	if r.ModelSpan.Empty() {
		return append(dst, body...)
	}
	dst = append(dst, body[:r.ModelSpan.Start]...)
	dst = appendString(dst, model)
	return append(dst, body[r.ModelSpan.End:]...)
}

// SpliceBoth is SpliceUsage and SpliceModel in one copy: after either, the spans of r no longer fit the body.
func SpliceBoth(dst, body []byte, r Request, model string) []byte {
	e, ok := usageEdit(body, r)
	if !ok {
		return SpliceModel(dst, body, r, model)
	}
	if r.ModelSpan.Empty() {
		return e.apply(dst, body)
	}
	if r.ModelSpan.End <= e.at.Start {
		dst = append(dst, body[:r.ModelSpan.Start]...)
		dst = appendString(dst, model)
		return edit{Span{e.at.Start - r.ModelSpan.End, e.at.End - r.ModelSpan.End}, e.text}.apply(dst, body[r.ModelSpan.End:])
	}
	dst = append(dst, body[:e.at.Start]...)
	dst = append(dst, e.text...)
	dst = append(dst, body[e.at.End:r.ModelSpan.Start]...)
	dst = appendString(dst, model)
	return append(dst, body[r.ModelSpan.End:]...)
}

func (e edit) apply(dst, body []byte) []byte {
	dst = append(dst, body[:e.at.Start]...)
	dst = append(dst, e.text...)
	return append(dst, body[e.at.End:]...)
}

// usageEdit is what makes the body ask for its usage; false if it does.
func usageEdit(body []byte, r Request) (edit, bool) {
	options := r.StreamOptions
	switch {
	case r.IncludeUsage:
		return edit{}, false
	case options.Empty():
		at := Span{r.ObjectEnd, r.ObjectEnd}
		if open := skipSpace(body, 0); skipSpace(body, open+1) == r.ObjectEnd {
			return edit{at, `"stream_options":{"include_usage":true}`}, true
		}
		return edit{at, `,"stream_options":{"include_usage":true}`}, true
	case body[options.Start] != '{': // null
		return edit{options, `{"include_usage":true}`}, true
	case !r.includeUsage.Empty():
		return edit{r.includeUsage, `true`}, true
	}
	at := Span{options.Start + 1, options.Start + 1}
	if body[skipSpace(body, at.Start)] == '}' {
		return edit{at, `"include_usage":true`}, true
	}
	return edit{at, `"include_usage":true,`}, true
}
