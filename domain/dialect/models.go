package dialect

import (
	"strconv"
	"time"
)

// AppendModels appends the list of models in the dialect's shape; None has OpenAI's. created is Unix seconds.
func AppendModels(dst []byte, d Dialect, models []string, created int64) []byte {
	switch d {
	case AnthropicMessages:
		dst = append(dst, `{"data":[`...)
	case Gemini:
		dst = append(dst, `{"models":[`...)
	default:
		dst = append(dst, `{"object":"list","data":[`...)
	}
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, d, m, created)
	}
	dst = append(dst, ']')
	if d == AnthropicMessages {
		first, last := "null", "null"
		if len(models) > 0 {
			first, last = string(appendString(nil, models[0])), string(appendString(nil, models[len(models)-1]))
		}
		dst = append(dst, `,"has_more":false,"first_id":`+first+`,"last_id":`+last...)
	}
	return append(dst, '}')
}

// AppendModel appends one model in the dialect's shape.
func AppendModel(dst []byte, d Dialect, model string, created int64) []byte {
	switch d {
	case AnthropicMessages:
		dst = append(dst, `{"type":"model","id":`...)
		dst = appendString(dst, model)
		dst = appendMember(dst, "display_name", model)
		dst = append(dst, `,"created_at":"`...)
		dst = time.Unix(created, 0).UTC().AppendFormat(dst, time.RFC3339)
		return append(dst, `"}`...)
	case Gemini:
		dst = append(dst, `{"name":`...)
		dst = appendString(dst, "models/"+model)
		dst = appendMember(dst, "displayName", model)
		return append(dst, `,"supportedGenerationMethods":["generateContent","streamGenerateContent","countTokens"]}`...)
	}
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, model)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	return append(dst, `,"owned_by":"penstock"}`...)
}
