// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/cudaframe/gstcudaframecontext.h"

#include "gst/cudaframe/gstcudaframe-debug.h"

#undef GST_CAT_DEFAULT
#define GST_CAT_DEFAULT gst_cuda_frame_debug_category()

static constexpr char kDeviceIdField[] = "device-id";

GstContext* gst_context_new_cuda_frame(gint device_id) {
  g_return_val_if_fail(device_id >= 0, nullptr);
  GstContext* context = gst_context_new(GST_CUDA_FRAME_CONTEXT_TYPE, TRUE);
  gst_structure_set(gst_context_writable_structure(context), kDeviceIdField, G_TYPE_INT, device_id,
                    nullptr);
  return context;
}

gboolean gst_context_get_cuda_frame(GstContext* context, gint* device_id) {
  g_return_val_if_fail(GST_IS_CONTEXT(context), FALSE);
  if (!gst_context_has_context_type(context, GST_CUDA_FRAME_CONTEXT_TYPE)) return FALSE;
  return gst_structure_get_int(gst_context_get_structure(context), kDeviceIdField, device_id);
}

gboolean gst_cuda_frame_handle_set_context(GstContext* context, gint* device_id) {
  gint named = -1;
  if (!context || *device_id >= 0) return FALSE;
  if (!gst_context_get_cuda_frame(context, &named)) return FALSE;
  *device_id = named;
  return TRUE;
}

gboolean gst_cuda_frame_handle_context_query(GstQuery* query, gint device_id) {
  g_return_val_if_fail(GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT, FALSE);
  const gchar* type = nullptr;
  gst_query_parse_context_type(query, &type);
  if (device_id < 0 || g_strcmp0(type, GST_CUDA_FRAME_CONTEXT_TYPE) != 0) return FALSE;
  GstContext* context = gst_context_new_cuda_frame(device_id);
  gst_query_set_context(query, context);
  gst_context_unref(context);
  return TRUE;
}

/// Whether a neighbour of one of these pads answers with a context, which is then set on `element`.
static gboolean ask_neighbours(GstElement* element, GList* pads) {
  gboolean found = FALSE;
  GstQuery* query = gst_query_new_context(GST_CUDA_FRAME_CONTEXT_TYPE);
  for (GList* item = pads; item && !found; item = item->next) {
    if (!gst_pad_peer_query(GST_PAD(item->data), query)) continue;
    GstContext* context = nullptr;
    gst_query_parse_context(query, &context);
    if (!context) continue;
    gst_element_set_context(element, context);
    found = TRUE;
  }
  gst_query_unref(query);
  return found;
}

static gint current_device(GstElement* element) {
  gint device_id = -1;
  GstContext* context = gst_element_get_context(element, GST_CUDA_FRAME_CONTEXT_TYPE);
  if (!context) return -1;
  gst_cuda_frame_handle_set_context(context, &device_id);
  gst_context_unref(context);
  return device_id;
}

void gst_cuda_frame_ensure_device(GstElement* element, gint* device_id) {
  g_return_if_fail(GST_IS_ELEMENT(element));
  if (*device_id >= 0) return;
  *device_id = current_device(element);
  if (*device_id >= 0) return;
  if (ask_neighbours(element, element->srcpads) || ask_neighbours(element, element->sinkpads)) {
    *device_id = current_device(element);
    if (*device_id >= 0) return;
  }
  // The application may answer this message, at once, with gst_element_set_context().
  gst_element_post_message(
      element, gst_message_new_need_context(GST_OBJECT(element), GST_CUDA_FRAME_CONTEXT_TYPE));
  *device_id = current_device(element);
  if (*device_id >= 0) return;
  *device_id = 0;
  GST_DEBUG_OBJECT(element, "nobody names a device, taking 0");
  GstContext* context = gst_context_new_cuda_frame(0);
  gst_element_set_context(element, context);
  gst_element_post_message(element, gst_message_new_have_context(GST_OBJECT(element), context));
}
